#!/bin/sh
# Creates a repository in which one of eight commits makes the server slower, and lets
# `git bisect run` find it. Options are passed on to `prony compare`.
set -eu
PRONY=${PRONY:-prony}
export PRONY GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
git -c init.defaultBranch=main init -q repo
cd repo
git config user.name Example
git config user.email example@example.org

# The server is prony's target server; the file `latency` has its service time.
cat > server.sh <<'SERVER'
#!/bin/sh
exec "$PRONY" serve "127.0.0.1:$1" --latency "$(cat latency)"
SERVER
chmod +x server.sh
for number in 1 2 3 4 5 6 7 8; do
  if [ "$number" -lt 6 ]; then echo fixed:20ms > latency; else echo fixed:30ms > latency; fi
  echo "change $number" >> notes.txt
  git add .
  git commit -q -m "Change $number"
done

# The first commit is good: its server is A in every comparison.
git worktree add -q "$folder/good" HEAD~7
git bisect start HEAD HEAD~7
git bisect run "$PRONY" compare 'http://127.0.0.1:{port}/' 'http://127.0.0.1:{port}/' \
  --start-a "cd '$folder/good' && exec ./server.sh {port}" --start-b './server.sh {port}' \
  --fail-if 'p50 > +20%' --rate 200 -d 600ms --warmup 100ms --quiet "$@"
