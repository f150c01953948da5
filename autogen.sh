#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure.
set -e
cd "$(dirname "$0")"
mkdir -p config/aux
exec autoreconf --install --force --warnings=all
