# envcheck: begin CUDA libraries
set -e _envcheck_old
set -q LD_LIBRARY_PATH; and set -g _envcheck_old "$LD_LIBRARY_PATH"
set -gx LD_LIBRARY_PATH (sh "$VIRTUAL_ENV/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
function _envcheck_leave --on-variable VIRTUAL_ENV
  set -e LD_LIBRARY_PATH
  set -q _envcheck_old; and set -gx LD_LIBRARY_PATH $_envcheck_old
  functions -e _envcheck_leave
end
# envcheck: end CUDA libraries
