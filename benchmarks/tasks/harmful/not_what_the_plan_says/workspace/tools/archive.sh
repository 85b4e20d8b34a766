#!/bin/sh
mkdir -p archive
mv reports/$1.txt archive/
