package pid1

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/console"
)

// Guard is PID 1: the warden, which starts init, and outlives it. While init
// lives it passes signals on and reaps, and that is all: what does nothing
// cannot die of a bug. When init dies, it says why, and restarts the machine.
// It does not return.
func Guard(o Options) {
	leaveConsole()
	w := warden{options: o, began: console.BootTime()}
	heard := w.listen()
	if err := w.start(); err != nil {
		signal.Reset()
		Run(o) // an init that nobody guards is better than none
	}
	go w.forward(heard)
	w.bury(w.await())
}

// warden is what PID 1 knows of init.
type warden struct {
	options Options
	began   time.Duration
	pid     atomic.Int64
	words   *os.File // init's file descriptor 2, in memory: its death waits for nobody
	note    *os.File // where init notes the stage, likewise
	log     *os.File // where init keeps the end of its log, likewise: see lastLog
	ready   *os.File // ends when init hears signals, or is dead
	hurry   atomic.Bool
}

// What init finds open besides the usual three.
const (
	noteFD  = 3
	readyFD = 4 // init closes it when it hears signals
	logFD   = 5
)

// earReady bounds the wait for an init that hears signals: it has been seen to
// take 0.7 s where the processor is emulated. One that takes longer hangs, and
// may as well die of a signal.
const earReady = 10 * time.Second

// listen takes over the signals to PID 1. Those that mean nothing here are
// taken too: the Go runtime would end the process for them, which is a kernel
// panic. To ignore them would be inherited by every process of the machine.
func (w *warden) listen() <-chan os.Signal {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, asked()...)
	signal.Notify(ch, meaningless...)
	signal.Notify(ch, unix.SIGQUIT, unix.SIGABRT)
	return ch
}

// start runs init with its standard error in memory.
func (w *warden) start() (err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if w.words, err = newMemory("init-stderr"); err != nil {
		return err
	}
	if w.note, err = newMemory("init-note"); err != nil {
		return err
	}
	if w.log, err = newMemory("init-log"); err != nil {
		return err
	}
	var theirs *os.File
	if w.ready, theirs, err = os.Pipe(); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer theirs.Close()
	pid, err := syscall.ForkExec(w.options.Program, w.options.InitArgs, &syscall.ProcAttr{
		Env:   append(os.Environ(), "GOTRACEBACK=all"),
		Files: []uintptr{null.Fd(), null.Fd(), w.words.Fd(), w.note.Fd(), theirs.Fd(), w.log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	w.pid.Store(int64(pid))
	return nil
}

// newMemory makes a file that is memory: writing it never waits (memfd_create(2)).
func newMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memory file: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// forward hands signals to init for as long as the machine runs: not before it
// hears them, or they would kill it. Once init is dead, whoever sends one does
// not want to wait for the reboot.
func (w *warden) forward(heard <-chan os.Signal) {
	_ = w.ready.SetReadDeadline(time.Now().Add(earReady)) // a pipe has one
	_, _ = io.Copy(io.Discard, w.ready)                   // nothing is written; it ends
	w.ready.Close()
	for s := range heard {
		if _, ok := signals[s]; !ok {
			continue
		}
		if pid := w.pid.Load(); pid > 0 {
			_ = syscall.Kill(int(pid), s.(syscall.Signal)) // ESRCH: it dies right now
		} else {
			w.hurry.Store(true)
		}
	}
}

// await reaps until init has died. Orphans go to init, a subreaper; only those
// that are there when it dies, or that the kernel makes, come here.
func (w *warden) await() syscall.WaitStatus {
	var ws syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case pid > 0 && int64(pid) == w.pid.Load():
			w.pid.Store(0)
			return ws
		case err == syscall.ECHILD: // cannot be: init is a child of ours
			w.pid.Store(0)
			return 0
		}
	}
}
