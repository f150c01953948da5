#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure.
set -e
cd "$(dirname "$0")"
mkdir -p config/aux
config/list-files
exec autoreconf --install --force --warnings=all
