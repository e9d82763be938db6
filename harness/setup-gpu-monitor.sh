#!/usr/bin/env bash
# Has gpu-monitor.sh run every ten minutes on this host: by a systemd timer, or by cron where there is no
# systemd. The scripts are copied, so that root never runs what the owner of a checkout may change.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: setup-gpu-monitor.sh [--dry-run] [--uninstall] [--scheduler auto|systemd|cron] [--json]
                            [--vendor auto|nvidia|amd|intel] [--gpus N]

  --dry-run      print what would be done, do nothing; needs no root
  --uninstall    remove what was set up; the log stays
  --scheduler    default auto: systemd where it runs, else cron
  --json         have the log written as JSON lines
  --vendor V     whose tool is asked; to be named where tools of several vendors are installed
                 (default: $BKGEN_GPU_VENDOR, else auto)
  --gpus N       how many GPUs this host has: fewer or more need a look (default: at least 1)
  --help         print this

Installs /usr/local/lib/bkgen/gpu-monitor.sh and either bkgen-gpu-monitor.timer or
/etc/cron.d/bkgen-gpu-monitor; the log is /var/log/bkgen-gpu-monitor.log. Safe to repeat: what is in place
already is left alone. Under systemd, `systemctl --failed` shows a host whose GPUs need a look.

exit status: 0 done; 1 it could not be done; 2 called wrongly
$BKGEN_ROOT is put in front of every path (for images and tests).
TEXT
}

wrong() {
  printf 'setup-gpu-monitor: %s\n  hint: setup-gpu-monitor.sh --help\n' "$1" >&2
  exit 2
}

say() {
  printf 'setup-gpu-monitor: %s\n' "$*" >&2
}

fail() {
  say "$1"
  [ -z "${2:-}" ] || printf '  hint: %s\n' "$2" >&2
  exit 1
}

dry_run=0 uninstall=0 scheduler=auto json='' vendor=${BKGEN_GPU_VENDOR:-auto} gpus=''
while [ "$#" -gt 0 ]; do
  case "$1" in
  --dry-run) dry_run=1 ;;
  --uninstall) uninstall=1 ;;
  --json) json=' --json' ;;
  --scheduler | --vendor | --gpus)
    [ "$#" -ge 2 ] && [ -n "$2" ] || wrong "$1 needs a value"
    case "$1" in
    --scheduler) scheduler=$2 ;;
    --vendor) vendor=$2 ;;
    --gpus) gpus=$2 ;;
    esac
    shift
    ;;
  -h | --help)
    usage
    exit 0
    ;;
  *) wrong "unknown argument '$1'" ;;
  esac
  shift
done
[[ $vendor =~ ^(auto|nvidia|amd|intel)$ ]] || wrong "--vendor is auto, nvidia, amd or intel, not '$vendor'"
[[ $gpus =~ ^(0|[1-9][0-9]{0,3})?$ ]] || wrong "--gpus takes a whole number, not '$gpus'"

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=${BKGEN_ROOT:-}
library=/usr/local/lib/bkgen
log_file=/var/log/bkgen-gpu-monitor.log
service=/etc/systemd/system/bkgen-gpu-monitor.service
timer=/etc/systemd/system/bkgen-gpu-monitor.timer
cron=/etc/cron.d/bkgen-gpu-monitor
scripts=(gpu-monitor.sh gpu-query.sh gpu_reports.py)
command="$library/gpu-monitor.sh --once$json --log $log_file"
[ "$vendor" = auto ] || command+=" --vendor $vendor"
[ -z "$gpus" ] || command+=" --gpus $gpus"

if [ "$dry_run" = 0 ] && [ "$(id -u)" -ne 0 ]; then
  fail "needs root, for the timer and to see other users' processes" \
    "sudo $0, or --dry-run to see what it would do"
fi

run() {
  printf '+ %s\n' "$*" >&2
  [ "$dry_run" = 1 ] || "$@"
}

have() { command -v "$1" >/dev/null 2>&1; }

case "$scheduler" in
systemd | cron) ;;
auto)
  if have systemctl && [ -d "$root/run/systemd/system" ]; then
    scheduler=systemd
  elif [ -d "$root/etc/cron.d" ]; then
    scheduler=cron
  elif [ "$uninstall" = 1 ]; then
    scheduler=cron
  else
    fail "neither systemd runs here nor is there an /etc/cron.d" "install cron"
  fi
  ;;
*) wrong "--scheduler is auto, systemd or cron, not '$scheduler'" ;;
esac
if [ "$scheduler" = systemd ] && ! have systemctl; then
  fail "systemctl is not on the path" "--scheduler cron"
fi

changed=0

# put MODE PATH: writes standard input to PATH unless it is there already.
put() {
  local mode=$1 path=$root$2 text
  text=$(cat)
  if [ -f "$path" ] && [ "$(cat "$path")" = "$text" ] && [ "$(stat -c %a "$path")" = "$mode" ]; then
    say "in place: $2"
    return 0
  fi
  changed=1
  printf '+ write %s (mode %s)\n' "$path" "$mode" >&2
  [ "$dry_run" = 0 ] || return 0
  mkdir -p -- "$(dirname -- "$path")"
  # Written beside and moved: a timer that fires now runs the old script or the new one, never half of one.
  printf '%s\n' "$text" >"$path.new"
  chmod "$mode" "$path.new"
  mv -f -- "$path.new" "$path"
}

remove() {
  local path
  for path in "$@"; do
    if [ -e "$root$path" ]; then
      changed=1
      run rm -f -- "$root$path"
    fi
  done
}

remove_timer() {
  if have systemctl && [ -e "$root$timer" ]; then
    run systemctl disable --now bkgen-gpu-monitor.timer
  fi
  if [ -e "$root$timer" ] || [ -e "$root$service" ]; then
    remove "$timer" "$service"
    ! have systemctl || run systemctl daemon-reload
  fi
}

if [ "$uninstall" = 1 ]; then
  remove_timer
  remove "$cron" "${scripts[@]/#/$library/}"
  if [ -d "$root$library" ]; then
    run rmdir --ignore-fail-on-non-empty -- "$root$library"
  fi
  [ "$changed" = 1 ] || say "nothing is installed"
  exit 0
fi

for script in "${scripts[@]}"; do
  [ -f "$here/$script" ] || fail "$here/$script is missing"
done
put 755 "$library/gpu-monitor.sh" <"$here/gpu-monitor.sh"
put 644 "$library/gpu-query.sh" <"$here/gpu-query.sh"
put 644 "$library/gpu_reports.py" <"$here/gpu_reports.py"

if [ "$scheduler" = cron ]; then
  remove_timer
  # A cron file needs the user's name, and cron reads none that others may write.
  put 644 "$cron" <<TEXT
# Who holds the GPUs of this host; written by setup-gpu-monitor.sh.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
*/10 * * * * root $command
TEXT
  if [ "$dry_run" = 1 ]; then
    say "nothing was done"
  elif [ "$changed" = 0 ]; then
    say "nothing to do: cron runs it every ten minutes; log: $log_file"
  else
    say "done: cron runs it every ten minutes; log: $log_file"
  fi
  exit 0
fi

remove "$cron"
scripts_changed=$changed
changed=0
put 644 "$service" <<TEXT
[Unit]
Description=Who holds the GPUs of this host

[Service]
Type=oneshot
ExecStart=$command
TimeoutStartSec=300
TEXT
put 644 "$timer" <<TEXT
[Unit]
Description=Look every ten minutes who holds the GPUs of this host

[Timer]
OnCalendar=*:0/10
AccuracySec=30s

[Install]
WantedBy=timers.target
TEXT
if [ "$changed" = 1 ]; then
  run systemctl daemon-reload
fi
if [ "$changed" = 1 ] || [ "$dry_run" = 1 ] || ! systemctl --quiet is-active bkgen-gpu-monitor.timer; then
  run systemctl enable --now bkgen-gpu-monitor.timer
  changed=1
fi
if [ "$dry_run" = 0 ] && ! systemctl --quiet is-active bkgen-gpu-monitor.timer; then
  fail "the timer was set up, but it is not active" "systemctl status bkgen-gpu-monitor.timer"
fi
if [ "$dry_run" = 1 ]; then
  say "nothing was done"
elif [ "$changed$scripts_changed" = 00 ]; then
  say "nothing to do: the timer is active; log: $log_file"
else
  say "done: the timer is active; log: $log_file"
fi
