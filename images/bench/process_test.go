package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProcess(t *testing.T) {
	p, err := start("sh", []string{"-c", "echo spoken >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	if got := p.ended(); got != "exit status 3: spoken" {
		t.Errorf("ended: %q", got)
	}
	if p, err = start("sleep", []string{"1000"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
	}
	if got := p.ended(); got != "signal: killed" {
		t.Errorf("ended: %q", got)
	}
	if _, err := start("/nonsense", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start nonsense: %v", err)
	}
}

// TestChildDiesWithUs starts this test again as a program that starts a child,
// and kills the program in a way that it cannot answer.
func TestChildDiesWithUs(t *testing.T) {
	if os.Getenv("BENCH_PARENT") != "" {
		p, err := start("sleep", []string{"1000"})
		fmt.Println("child", p.pid, err)
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithUs$")
	parent.Env = append(os.Environ(), "BENCH_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "child %d <nil>", &child); err != nil || scanErr != nil {
		t.Fatalf("parent said %q: %v", line, errors.Join(err, scanErr))
	}
	if err := errors.Join(parent.Process.Kill(), ignoreExit(parent.Wait())); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatalf("child %d lives on", child)
		}
	}
}

func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// alive says whether a process runs; one that nobody waited for yet does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
