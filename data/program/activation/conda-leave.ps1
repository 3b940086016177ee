# Written by envcheck: what its activation changed.
$env:LD_LIBRARY_PATH = $env:_ENVCHECK_BEFORE
$env:_ENVCHECK_BEFORE = $null
