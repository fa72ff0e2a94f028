package synctest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Twenty goroutines of a bubble have timers that are due at the same moment,
// again and again: with more than one processor the race detector dies of it.
func TestTimersAtTheSameMoment(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 100 {
		Test(t, func(t *testing.T) {
			var group sync.WaitGroup
			for range 20 {
				group.Go(func() {
					for range 50 {
						<-time.After(0)
						ticker := time.NewTicker(time.Millisecond)
						<-ticker.C
						ticker.Stop()
					}
				})
			}
			group.Wait()
		})
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
	}
}
