package service

import (
	"fmt"
	"strings"
)

// Ref names one incarnation of a service for good: whoever reports on a
// process says of which, so that nothing that is said late is taken for news of
// its successor.
type Ref struct {
	Boot        string // the kernel's boot id
	Service     string
	Incarnation uint64 // counts the starts of Service in this boot
	Generation  uint64 // of the document its definition is from
}

// String is a Ref for people: etcd#3.
func (r Ref) String() string { return fmt.Sprintf("%s#%d", r.Service, r.Incarnation) }

// Verdict is what a monitor has found out.
type Verdict string

// The verdicts. Gone needs evidence: the process's exit, or the service's own
// word that it does not know its instances. Unknown is everything else that is
// not a clear answer; it is tried again, and becomes Gone at the deadline, whose
// Why then says that there was no evidence, only silence.
const (
	Alive   Verdict = "alive"
	Gone    Verdict = "gone"
	Unknown Verdict = "unknown"
)

// Report is a monitor's news of one incarnation, sent when it changes.
type Report struct {
	Ref
	Verdict   Verdict
	Ready     bool
	Answered  bool       // its liveness probe was well once: from then on its failures count
	Why       string     // one sentence, for Gone and Unknown: what was asked, what was answered, since when
	Server    string     // the name that the process gave itself at its start, by its Identity probe
	Instances []Instance // that the service serves, or served until it was gone; sorted by ID
}

// Instance is one thing that a service keeps in its memory, by its Identity
// probe.
type Instance struct {
	ID         string
	Generation uint64 // never falls
	State      string // the service's own word
}

// Ended tells whether an instance may be missing from now on: it was ordered to
// end, or ended, by the service's own word.
func (i Instance) Ended() bool {
	switch strings.ToLower(i.State) {
	case "stopped", "destroyed", "failed":
		return true
	}
	return false
}
