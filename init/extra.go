//go:build faults

package main

import (
	"fmt"
	"os"
	"strconv"
)

// extra runs what only tests ask for: `init flood BYTES` writes that much.
func extra(args []string) bool {
	if len(args) != 3 || args[1] != "flood" {
		return false
	}
	total, err := strconv.Atoi(args[2])
	if err != nil {
		return false
	}
	for n, line := 0, 1; n < total; line++ {
		k, err := fmt.Fprintf(os.Stdout, "flood line %06d: the quick brown fox jumps over the lazy dog\n", line)
		if err != nil {
			os.Exit(1)
		}
		n += k
	}
	return true
}
