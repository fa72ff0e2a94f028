//go:build faults

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// extra runs what only tests ask for: `init flood BYTES` writes that much,
// `init watch` tells how its parent, init, fares, `init deaf` does not obey
// SIGTERM, nor does `init frozen`, `init killer KILLS` kills the agent, `init
// bystander` lives, `init payload MODE` is a service: see payload.
func extra(args []string) bool {
	switch {
	case len(args) == 3 && args[1] == "flood":
		return flood(args[2])
	case len(args) == 3 && args[1] == "killer":
		return killer(args[2])
	case len(args) == 2 && args[1] == "bystander":
		bystander()
	case len(args) > 2 && args[1] == "payload":
		payload(args[2], args[3:])
	case len(args) == 2 && args[1] == "watch":
		watch(os.Getppid())
	case len(args) == 2 && (args[1] == "deaf" || args[1] == "frozen"):
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGTERM)
		for range heard {
		}
	}
	return false
}

func flood(bytes string) bool {
	total, err := strconv.Atoi(bytes)
	if err != nil {
		return false
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10) // a pipe's worth at a time: as fast as can be
	defer out.Flush()
	for n, line := 0, 1; n < total; line++ {
		k, err := fmt.Fprintf(out, "flood line %06d: the quick brown fox jumps over the lazy dog\n", line)
		if err != nil {
			os.Exit(1)
		}
		n += k
	}
	return true
}
