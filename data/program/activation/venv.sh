# envcheck: begin CUDA libraries
_envcheck_leave() {
  [ -n "${_envcheck_old+x}" ] || return 0
  unset LD_LIBRARY_PATH
  [ -z "$_envcheck_old" ] || export LD_LIBRARY_PATH="${_envcheck_old#x}"
  unset _envcheck_old
}
_envcheck_leave
_envcheck_old=${LD_LIBRARY_PATH+x$LD_LIBRARY_PATH}
LD_LIBRARY_PATH=$(sh "$VIRTUAL_ENV/bin/envcheck-cuda" printenv LD_LIBRARY_PATH)
export LD_LIBRARY_PATH
eval "$(sed -n "/^ *#/d; s/^deactivate () {/& _envcheck_leave;/; /^deactivate () {/,/^}/p" "$VIRTUAL_ENV/bin/activate")"
# envcheck: end CUDA libraries
