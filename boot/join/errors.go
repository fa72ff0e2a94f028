package join

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
)

// ErrNoTicket is returned by Enrol when the node parameters have no ticket.
var ErrNoTicket = errors.New("no ticket in the node parameters: make one with `reveille ticket create` and set cluster.ticket")

// Refused is the cluster's no, which repeating the same request cannot change.
type Refused struct {
	Step     string // "enrol", "join" or "heartbeat"
	Endpoint string
	Kind     clusterv1.RefusalKind
	Message  string // what is wrong
	Remedy   string // what an operator can do about it
}

func (e *Refused) Error() string {
	text := fmt.Sprintf("%s: refused by %s: %s", e.Step, e.Endpoint, e.Message)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

func isRefused(err error) bool {
	var r *Refused
	return errors.As(err, &r)
}

// Step is how far an attempt at an endpoint came.
type Step int

// The steps of reaching a controller.
const (
	StepLookup Step = iota
	StepConnect
	StepTLS
	StepCall
)

func (s Step) String() string {
	return [...]string{"look up", "connect", "TLS", "call"}[s]
}

// Failure is why one address of an endpoint could not serve.
type Failure struct {
	Endpoint string
	Address  netip.AddrPort // not valid when the name could not be looked up
	Step     Step
	Err      error
}

func (f *Failure) Unwrap() error { return f.Err }

func (f *Failure) Error() string { return f.where() + " " + f.cause() }

// where is the endpoint, with the address if that says more.
func (f *Failure) where() string {
	if !f.Address.IsValid() || f.Address.String() == f.Endpoint {
		return f.Endpoint
	}
	return fmt.Sprintf("%s (%s)", f.Endpoint, f.Address.Addr())
}

func (f *Failure) cause() string {
	text := cause(f.Err)
	if f.Step == StepCall || strings.HasPrefix(text, f.Step.String()+": ") {
		return text
	}
	return f.Step.String() + ": " + text
}

// Unreachable is an attempt in which every endpoint failed.
type Unreachable struct {
	Endpoints int
	Failures  []*Failure // at least one for each endpoint
}

func (e *Unreachable) Unwrap() []error {
	var out []error
	for _, f := range e.Failures {
		out = append(out, f)
	}
	return out
}

func (e *Unreachable) Error() string {
	return fmt.Sprintf("%d of %d endpoints failed: %s", e.Endpoints, e.Endpoints, summary(e.Failures))
}

// maxCauses is how many causes fit on a console beside the rest of the line.
const maxCauses = 3

// summary names each cause once, with one endpoint as its example; the causes
// first that came furthest, since those are the least to be expected.
func summary(failures []*Failure) string {
	failures = slices.Clone(failures)
	slices.SortFunc(failures, func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(b.Step, a.Step), cmp.Compare(a.where(), b.where()))
	})
	var order []string
	example := map[string]string{}
	count := map[string]int{}
	for _, f := range failures {
		c := f.cause()
		if count[c]++; count[c] == 1 {
			order = append(order, c)
			example[c] = f.where()
		}
	}
	var texts []string
	for _, c := range order[:min(len(order), maxCauses)] {
		also := ""
		if n := count[c] - 1; n > 0 {
			also = fmt.Sprintf(" (and %d more)", n)
		}
		texts = append(texts, example[c]+also+" "+c)
	}
	if n := len(order) - maxCauses; n > 0 {
		texts = append(texts, fmt.Sprintf("%d more causes", n))
	}
	return strings.Join(texts, ", ")
}

// causes are the parts of err that are news each on their own.
func causes(err error) []string {
	var u *Unreachable
	if !errors.As(err, &u) {
		return []string{cause(err)}
	}
	var out []string
	for _, f := range u.Failures {
		out = append(out, f.Error())
	}
	return out
}

// annotated puts words of ours before an error, and keeps them in cause.
type annotated struct {
	words string
	err   error
}

func (e *annotated) Error() string { return e.words + ": " + cause(e.err) }
func (e *annotated) Unwrap() error { return e.err }

// errClosed is a session whose connection has ended.
var errClosed = errors.New("connection closed by the other side")

// cause is what err says without what only its machinery knows: addresses we
// name ourselves, local ports that differ each time, URLs that are always the
// same.
func cause(err error) string {
	var (
		ours   *annotated
		dns    *net.DNSError
		op     *net.OpError
		remote *connect.Error
		http   *url.Error
	)
	switch {
	case errors.As(err, &ours):
		return ours.Error()
	case errors.As(err, &dns) && dns.Server != "":
		return fmt.Sprintf("%s (asked %s)", plain(dns.Err), dns.Server)
	case errors.As(err, &dns):
		return plain(dns.Err)
	case errors.As(err, &op) && op.Op == alertOp:
		return "the other side says: " + plain(op.Err.Error())
	case errors.As(err, &op):
		return plain(op.Err.Error())
	case errors.As(err, &remote) && connect.IsWireError(err):
		return fmt.Sprintf("%s: %s", remote.Code(), plain(remote.Message()))
	case errors.Is(err, errClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errClosed.Error()
	case errors.As(err, &http):
		return cause(http.Err)
	}
	return plain(err.Error())
}

// alertOp marks a TLS alert from the other side; crypto/tls does not export
// the type of these.
const alertOp = "remote error"

func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == alertOp
}

// maxText bounds a text that comes from elsewhere: two SHA-256 and some words.
const maxText = 300

// plain makes a text from elsewhere fit for one line of a log.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + ".."
	}
	return s
}
