# envcheck: begin CUDA libraries
if (Test-Path -Path variable:global:_envcheck_before) { $env:LD_LIBRARY_PATH = $global:_envcheck_before }
$global:_envcheck_before = $env:LD_LIBRARY_PATH
$env:LD_LIBRARY_PATH = sh "$env:VIRTUAL_ENV/bin/envcheck-cuda" printenv LD_LIBRARY_PATH
function global:_envcheck_deactivate {}
Copy-Item -Path function:deactivate -Destination function:_envcheck_deactivate
function global:deactivate ([switch] $NonDestructive) {
  $env:LD_LIBRARY_PATH = $global:_envcheck_before
  Remove-Variable -Name _envcheck_before -Scope global -ErrorAction SilentlyContinue
  _envcheck_deactivate -NonDestructive:$NonDestructive
}
# envcheck: end CUDA libraries
