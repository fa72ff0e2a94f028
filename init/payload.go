//go:build faults

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// payloads are services that misbehave, one way each.
var payloads = map[string]func(args []string){
	"live":    func([]string) { live() },
	"exit":    func(args []string) { os.Exit(number(args)) },
	"signal":  func(args []string) { dieBy(syscall.Signal(number(args))) },
	"hang":    func(args []string) { hang(args[0]) },
	"fill":    func(args []string) { fill(args[0]) },
	"deaf":    func([]string) { signal.Ignore(syscall.SIGTERM); live() },
	"bomb":    func([]string) { bomb() },
	"daemon":  func([]string) { again("live"); os.Exit(0) },
	"orphans": func([]string) { again("live"); again("deaf"); again("live"); os.Exit(1) },
	"mute":    func([]string) { mute() },
	"flood":   func([]string) { floodForEver() },
	"hungry":  func([]string) { eat(1 << 40) },
	"dump":    func(args []string) { eat(number(args) << 20); dieBy(syscall.SIGABRT) },
}

// payload does not return.
func payload(mode string, args []string) {
	fmt.Printf("payload %s, pid %d\n", mode, os.Getpid())
	run, known := payloads[mode]
	if !known {
		fmt.Println("no such payload")
		os.Exit(2)
	}
	run(args)
	os.Exit(0)
}

func number(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	return n
}

// live ends only by a signal.
func live() {
	for {
		time.Sleep(time.Hour)
	}
}

// dieBy takes the kernel's default for a signal, which Go's runtime changes.
func dieBy(sig syscall.Signal) {
	signal.Reset(sig)
	action := make([]byte, 32) // struct sigaction, all zero: SIG_DFL
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action[0])), 0, 8, 0, 0)
	var none unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil)
	_ = syscall.Kill(os.Getpid(), sig)
	live()
}

// again starts this program once more, in a session of its own.
func again(mode string) int {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"init", "payload", mode}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Println("start another:", err)
		return 0
	}
	return pid
}

// bomb starts as many of itself as it can, for ever.
func bomb() {
	for {
		if again("bomb") == 0 {
			time.Sleep(time.Second)
		}
	}
}

// hang answers three times, and then nothing any more: it is stopped.
func hang(address string) {
	var asked atomic.Int32
	fmt.Println(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "well")
		if asked.Add(1) == 3 {
			time.AfterFunc(100*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
		}
	})))
	os.Exit(2)
}

// fill takes all that a disk has, and dies over it.
func fill(file string) {
	f, err := os.Create(file)
	for chunk := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(chunk)
	}
	fmt.Println(err)
	os.Exit(7)
}

// mute lives on without anybody to tell.
func mute() {
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	live()
}

// floodForEver writes some 50 MB/s, where the machine can.
func floodForEver() {
	line := append(bytes.Repeat([]byte("flood "), 20), '\n')
	chunk := bytes.Repeat(line, 4096)
	for {
		if _, err := os.Stdout.Write(chunk); err != nil {
			os.Exit(1)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// eat takes memory and writes to each page of it.
func eat(size int) {
	const step = 16 << 20
	for taken := 0; taken < size; taken += step {
		part, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			fmt.Println("eat:", err)
			os.Exit(3)
		}
		for i := 0; i < len(part); i += 4096 {
			part[i] = byte(i>>12) | 1
		}
	}
}
