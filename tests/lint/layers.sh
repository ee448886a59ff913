#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Folders of src/ are floors: one includes its own and lower ones only.
. "$(dirname "$0")/lib.sh"

floors="base backup memory sleep control intercept"

# Sets $place: the floor's number from below, 0 for what is not one.
find_place() {
	local floor n=0

	place=0
	for floor in $floors; do
		n=$((n + 1))
		[ "$floor" = "$1" ] && place=$n
	done
}

check_include() {	# FILE FOLDER INCLUDED
	local into=${3%%/*} own there

	case $3 in
	config.h)	return ;;
	init.h)		[ "$2" = intercept ] || [ "$2" = init ] ||
				fail "$1: init.h is the top floor's"
			return ;;
	esac
	[ "$2" = init ] && return
	find_place "$2"; own=$place
	find_place "$into"; there=$place
	if [ "$there" = 0 ]; then
		fail "$1: \"$3\": name the folder (base/log.h)"
	elif [ "$there" -gt "$own" ]; then
		fail "$1: \"$3\" is on a higher floor"
	elif [ "$2/$into" = intercept/control ]; then
		fail "$1: \"$3\": the hooks reach control through init.h"
	fi
}

cd "$root/src" || exit 1
for file in *.[ch] */*.[chS] */*.def */*.map */*.ptx; do
	[ -f "$file" ] || continue
	case $file in
	*/*)	folder=${file%%/*} ;;
	*)	folder=init ;;
	esac
	find_place "$folder"
	[ "$folder" = init ] || [ "$place" != 0 ] ||
		fail "$folder/ is not a floor: one of $floors"
	head -1 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
		fail "$file: the first line is not the SPDX line"
	# A row each for the driver's names: a list, not something to read.
	[ "$file" = base/driver.def ] || [ "$(wc -l < "$file")" -le 500 ] ||
		fail "$file: more than 500 lines"
	[ "$file" = base/cuda.h ] ||
		! grep -qE '^ *# *include *<(cuda|cudaProfiler)\.h>' "$file" ||
		fail "$file: cuda.h is included through base/cuda.h only"
	for name in $(sed -n 's/^ *# *include *"\(.*\)".*/\1/p' "$file"); do
		check_include "$file" "$folder" "$name"
	done
done

finish
