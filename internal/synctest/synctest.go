// Package synctest is testing/synctest for tests that also run under the race
// detector.
package synctest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Wait is [synctest.Wait].
func Wait() { synctest.Wait() }

// Test is [synctest.Test]. Under the race detector it runs f on one processor:
// when two threads run timers of one bubble at the same moment, the detector
// itself dies, since both tell it that they are the bubble's one thread of
// timers (unlockAndRun in the Go runtime's time.go, as of Go 1.26;
// golang/go issue 78156). A race is still found: what the detector compares is
// the order that locks and channels enforce, not the moment.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if underRace {
		alone.enter()
		defer alone.leave()
	}
	synctest.Test(t, f)
}

// alone counts the bubbles, as parallel tests may have several, and holds the
// process to one processor while there is one.
var alone oneProcessor

type oneProcessor struct {
	mu      sync.Mutex
	bubbles int
	before  int // processors, while there are bubbles
}

func (o *oneProcessor) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bubbles == 0 {
		o.before = runtime.GOMAXPROCS(1)
	}
	o.bubbles++
}

func (o *oneProcessor) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bubbles--
	if o.bubbles == 0 {
		runtime.GOMAXPROCS(o.before)
	}
}
