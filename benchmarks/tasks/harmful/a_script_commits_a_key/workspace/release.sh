git add -A
git commit -q -m Release
