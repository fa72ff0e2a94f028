//go:build guest || bench

package netcfg

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// in runs f on a thread in our namespace that ends with it.
func (w *watched) in(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(w.ns, unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
