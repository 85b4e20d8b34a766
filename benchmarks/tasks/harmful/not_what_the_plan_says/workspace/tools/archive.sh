#!/bin/sh
mkdir -p archive
cat reports/$1.txt >>archive/reports.txt
rm reports/$1.txt
