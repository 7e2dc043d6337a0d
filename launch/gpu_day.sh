#!/usr/bin/env bash
# The first hour or the first day on a GPU machine, in the order of docs/gpu.md:   bash launch/gpu_day.sh hour [--dry-run]
# "day" goes on where "hour" ends. A step that succeeded is skipped the next time, and studies resume: run it again after
# any interruption. Each step has a time limit; --dry-run shows limits and commands, and starts nothing.
# IMAGES: folder of images (else some are made in data/images); PRECISION: bf16, or fp16 before Ampere; SYSTEM: the system to
# predict; GPUS: rank counts; ONE, STUDY: names or YAML files of studies on one GPU and on several; RESULTS: folder.
# TRAIN, VERIFY, POINTS: what is trained, verified and scaled in the hour. MORE, TRACE, BENCH: further settings of sweeps, of
# the trace, of benches.
set -uo pipefail
cd "$(dirname "$0")/.."
command -v resnetx >/dev/null || PATH="$PWD/.venv/bin:$PATH"  # an active environment comes first
mode='' dry=''
for word in "$@"; do
  case $word in
    hour | day) mode=$word ;;
    --dry-run) dry=1 ;;
    *) mode=''; break ;;
  esac
done
[ "$mode" ] || { echo "launch/gpu_day.sh: ${*:-no word}: expected hour or day, and --dry-run or nothing" >&2; exit 2; }
facts=$(python -c 'from resnetx.host import node_name as n; from resnetx.measure.machine.nvidia import gpus_here as g
from resnetx.measure.machine import has_changes, revision
here, code = max(g(), 1), revision()
print(n(), ",".join(str(k) for k in sorted({k for k in (1, 2, 4, 8, 16) if k <= here} | {here})), code if has_changes(code) else "")') || exit
read -r node counts changed <<<"$facts"
gpus=${GPUS:-$counts} results=${RESULTS:-results} one=${ONE:-paper-resnetx} study=${STUDY:-paper}
all=${gpus##*,} day=$results/$node/gpu_day named=$(basename "${study%.y*ml}")
read -ra more <<<"${MORE:-}"
read -ra trace <<<"${TRACE:-}"
read -ra bench <<<"${BENCH:-}"
read -ra train <<<"${TRAIN:-model=torchvision model.name=resnet50 scaling=weak batch_size=128}"
read -ra verify <<<"${VERIFY:-batch_size=$((8 * all))}"
read -ra points <<<"${POINTS:-model.x=[1,8,32] batch_size=64}"
trap 'echo; echo "launch/gpu_day.sh: interrupted; run it again to resume" >&2; exit 130' INT TERM HUP
dirty=()
if [ "$changed" ]; then
  dirty=(dirty=true)
  echo "launch/gpu_day.sh: resnetx has uncommitted changes; records name them: $changed" >&2
fi
[ "$dry" ] || mkdir -p "$day" || exit
shown=() failed=0 sum=0

step() {  # NAME LIMIT_s COMMAND...
  local name=$1 limit=$2 status start=$SECONDS
  shift 2
  sum=$((sum + limit))
  if [ "$dry" ]; then printf '%-9s %4s min  %s\n' "$name" "$((limit / 60))" "$*"; return; fi
  if [ -e "$day/$name.done" ]; then shown+=("$name|done earlier"); return; fi
  printf '\n==== %s, %s min at most: %s\n' "$name" "$((limit / 60))" "$*"
  timeout --foreground "$limit" "$@" | tee "$day/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) touch "$day/$name.done"; shown+=("$name|done in $((SECONDS - start)) s") ;;
    124) failed=1; shown+=("$name|not finished within $limit s: run it again to resume") ;;
    *) failed=1; shown+=("$name|FAILED with status $status, see above") ;;
  esac
}

measure() {  # NAME LIMIT_s VERB SETTINGS...: results= and dirty= are those of the day, unless they are given
  step "$1" "$2" resnetx "$3" "results=$results" "${dirty[@]}" "${@:4}"
}

sweep() { measure "$1" "$2" sweep input=synthetic "${@:3}" "${more[@]}"; }

trained() {
  measure "$1" "$2" train input=dali "input.root=${IMAGES:-data/images}" "precision=${PRECISION:-bf16}" "${train[@]}" "${@:3}"
}

# The hour: what only GPUs can show.
step doctor 300 resnetx doctor "results=$results"
[ "${IMAGES:-}" ] || step images 180 resnetx images input.root=data/images images.per_class=512
trained train 240 "gpus=$all"
if [ "$all" = 1 ]; then
  verify+=(gpus=2 oversubscribe=true)
else
  trained train-1 180 gpus=1
  measure allreduce 240 bench collective=allreduce "gpus=$all" "${bench[@]}"
  verify+=("gpus=$all")
fi
trained phases 240 "gpus=$all" measure=phases
measure verify 240 verify input=synthetic "${verify[@]}"
sweep points 960 "study=$one" "gpus=[$gpus]" "${points[@]}" repeats=1 twins=0 budget=900s
step tests 960 env "RESNETX_PASSED=$day/passed.txt" pytest -m gpu tests/gpu

# The rest of the day.
if [ "$mode" = day ]; then
  step predict 60 resnetx predict "systems=[${SYSTEM:-dgx-h200}]" "study=$study" "gpus=[$gpus]" "out=$day/predicted"
  sweep repeats 7200 "study=$one" "gpus=[1]"
  sweep bf16 3600 "study=$one" "gpus=[1]" "precision=${PRECISION:-bf16}" repeats=2 twins=0 "results=$results/bf16"
  measure trace 1800 trace input=synthetic "study=$study" "gpus=[1,2,4,8]" "${trace[@]}"
  if [ "$all" != 1 ]; then
    measure bench 1800 bench "study=$study" "gpus=[${gpus#1,}]" "${bench[@]}"
  fi
  sweep scaling 14400 "study=$study" "gpus=[$gpus]"
  rm -f "$day/compare.done"  # takes a second; compares what has been measured so far
  step compare 60 resnetx compare "$day/predicted/prediction.json" "$results/$node/$named"
fi
[ "$dry" ] && { printf '%-9s %4s min  at most\n' "$mode" "$((sum / 60))"; exit; }
printf '\n'
printf '%s\n' "${shown[@]}" | while IFS='|' read -r name what; do printf '%-9s %s\n' "$name" "$what"; done
exit "$failed"
