# Written by envcheck: runs a command with the CUDA libraries of this environment.
add() {
  for folder; do
    case ":${LD_LIBRARY_PATH-}:" in *":$folder:"*) continue ;; esac
    [ ! -d "$folder" ] || LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
}
prefix=$(CDPATH="" cd -- "$(dirname -- "$0")/.." && pwd)
add @FOLDERS@
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}"
exec "$@"
