package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Launcher is a program of ours that is started so that it becomes another one:
// it calls Launch.
//
// Whoever forks with CLONE_VFORK stands still until the child has executed its
// program, and in Go that holds up the garbage collector, and so the whole of
// init. A program on a disk that hangs would do that for ever. So init starts
// only programs of the image, which lie in memory, and the launcher waits for
// the disk.
type Launcher struct {
	Path string // of the launcher
	Mark string // its argv[0], by which the own program knows that it is the launcher
	Own  string // the own program, which needs no launcher
}

// execPatience is how long Start waits for the word that the program runs: a
// slow USB stick gives a megabyte within a second or two.
const execPatience = 10 * time.Second

// launches tells whether a program has to be started by way of the launcher.
func (l Launcher) launches(path string) bool { return l.Path != "" && path != l.Path && path != l.Own }

// argv makes the launcher become spec's program; the word that it did comes
// through the file descriptor with this number.
func (l Launcher) argv(spec Spec, fd int) []string {
	setup := ""
	if spec.Setup != nil {
		text, _ := json.Marshal(spec.Setup) // strings and numbers: cannot fail
		setup = string(text)
	}
	return append([]string{l.Mark, strconv.Itoa(fd), setup, spec.Dir, spec.Path}, spec.Argv...)
}

// exitNoExec is the exit status of a launcher that could not become the
// program, as shells have it.
const exitNoExec = 127

// Launch becomes the program that a Table has asked for, with args after the
// mark. It does not return.
func Launch(args []string) {
	if len(args) < 5 {
		os.Exit(exitNoExec)
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		os.Exit(exitNoExec)
	}
	unix.CloseOnExec(fd) // its end is the word that the program runs
	err = become(args[1], args[2], args[3], args[4:])
	if _, unread := unix.Write(fd, []byte(err.Error())); unread != nil {
		fmt.Fprintln(os.Stderr, err) // its disk took too long: Start has said that it runs
	}
	os.Exit(exitNoExec)
}

// become returns only if it fails.
func become(setup, dir, program string, argv []string) error {
	runtime.LockOSThread()
	var err error
	if setup == "" {
		err = enterDir(dir)
	} else {
		s := new(Setup)
		if err = json.Unmarshal([]byte(setup), s); err == nil {
			err = s.apply(dir)
		}
	}
	if err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: program, Err: syscall.Exec(program, argv, os.Environ())}
}

// launched waits for the word of a launcher. nil: the program runs, or does not
// yet, because its disk has not answered for a while.
func launched(word *os.File, patience time.Duration) error {
	defer word.Close()
	_ = word.SetReadDeadline(time.Now().Add(patience)) // a pipe has one
	text, err := io.ReadAll(io.LimitReader(word, 4096))
	if len(text) > 0 {
		return errors.New(string(text))
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("hear of exec: %w", err)
	}
	return nil
}
