#!/usr/bin/env bash
# A command inside an image, on one node:   bash launch/container.sh apptainer resnetx.sif /scratch,/data python3 ...
# `resnetx ... launcher=slurm site=site.yaml` puts it before what srun starts on each node, if the site file has a
# container; `--dry-run` prints it filled in. The working folder and the variables are those outside; with enroot, but for
# those that name programs and folders of the host (PATH, HOME, LD_*, PYTHON* and the like).
set -euo pipefail
kind=${1:?usage: container.sh apptainer|enroot IMAGE [FOLDER,...] COMMAND...} image=${2:?IMAGE is missing} mounts=${3-}
shift 3
folders=("$PWD")
[ -z "$mounts" ] || IFS=, read -ra more <<<"$mounts"
[ -z "$mounts" ] || folders+=("${more[@]}")
case $kind in
  apptainer)
    options=(--pwd "$PWD")
    [ ! -e /dev/nvidiactl ] || options+=(--nv)
    [ ! -e /dev/kfd ] || options+=(--rocm)
    for folder in "${folders[@]}"; do options+=(--bind "$folder"); done
    exec apptainer exec "${options[@]}" "$image" "$@"
    ;;
  enroot) # gives its GPUs to a container by itself, by a hook
    options=(--rw)
    for folder in "${folders[@]}"; do options+=(--mount "$folder:$folder"); done
    own='^(PATH|HOME|USER|LOGNAME|SHELL|SHLVL|PWD|OLDPWD|TMPDIR|_|LD_.*|PYTHON.*|XDG_.*)$'
    for name in $(compgen -e | grep -Ev "$own"); do options+=(--env "$name"); done
    # The image's own start (/etc/rc) changes into its working folder.
    exec enroot start "${options[@]}" "$image" sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
    ;;
  *) echo "container.sh: $kind: expected apptainer or enroot" >&2; exit 2 ;;
esac
