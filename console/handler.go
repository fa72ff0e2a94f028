package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// sendWithin bounds how long a log call waits for init to take a packet. init
// always reads and the socket holds some hundred records, so only a machine in
// trouble uses it up; then nobody waits again before init has taken one.
const sendWithin = time.Second

// handler is a slog.Handler that sends one packet a record.
type handler struct {
	out    *output
	origin string
	level  slog.Leveler
	prefix string // open groups, "a.b."
	attrs  string // rendered, each with a leading space
	err    string // the value of an "err" attribute so far
}

// output is shared by all handlers that descend from one NewHandler.
type output struct {
	w    io.Writer
	mu   sync.Mutex
	lost int // records that could not be sent since the last that was
}

// NewHandler makes the agent's slog handler: each record is one Write of one
// packet (DecodePacket) to w, a datagram or seqpacket socket, with the
// attributes as " key=value" behind the message and "err" last, as ": err".
// A write that init does not take within sendWithin is given up; the next record
// tells how many were lost.
func NewHandler(w io.Writer, origin string, level slog.Leveler) slog.Handler {
	return &handler{out: &output{w: w}, origin: origin, level: level}
}

// WithOrigin is h under another origin, for a part of the process that has
// its own column on the console. A handler of another kind is returned as it is.
func WithOrigin(h slog.Handler, origin string) slog.Handler {
	own, ok := h.(*handler)
	if !ok {
		return h
	}
	c := *own
	c.origin = origin
	return &c
}

func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	c := *h
	r.Attrs(func(a slog.Attr) bool {
		c.add(c.prefix, a)
		return true
	})
	text := r.Message + c.attrs
	if c.err != "" {
		text += ": " + c.err
	}
	return h.out.send(h.origin, LevelOf(r.Level), text)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.add(c.prefix, a)
	}
	return &c
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	c := *h
	c.prefix += name + "."
	return &c
}

func (h *handler) add(prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			h.add(prefix, member)
		}
	case a.Key == "err" && prefix == "":
		h.err = valueText(v)
	default:
		h.attrs += " " + prefix + a.Key + "=" + quote(valueText(v))
	}
}

// attrExamples is how many items of a collection an attribute names.
const attrExamples = 3

// valueText renders a value on one bounded line. Bytes are only counted:
// they are unreadable, or a key.
func valueText(v slog.Value) string {
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().UTC().Format(time.RFC3339)
	case slog.KindAny:
		return anyText(v.Any())
	default:
		return v.String()
	}
}

func anyText(x any) string {
	switch t := x.(type) {
	case []byte:
		return fmt.Sprintf("%d bytes", len(t))
	case error, fmt.Stringer:
		return fmt.Sprint(t)
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Slice, reflect.Array:
		return listText(v)
	case reflect.Map, reflect.Struct, reflect.Pointer:
		// JSON, because fmt prints unexported fields, past any String method
		// that keeps a secret.
		b, err := json.Marshal(x)
		if err != nil {
			return fmt.Sprintf("%T", x)
		}
		return bounded(string(b))
	}
	return fmt.Sprint(x)
}

func listText(v reflect.Value) string {
	items := make([]string, min(v.Len(), attrExamples))
	for i := range items {
		items[i] = anyText(v.Index(i).Interface())
	}
	if more := v.Len() - len(items); more > 0 {
		return fmt.Sprintf("%d: %s and %d more", v.Len(), examples(items, attrExamples), more)
	}
	return examples(items, attrExamples)
}

// maxAttr bounds a structure in an attribute: two console lines.
const maxAttr = 180

func bounded(s string) string {
	s, cut := truncate(s, maxAttr)
	if cut > 0 {
		s += "..."
	}
	return s
}

func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " \"=\n\r\t") {
		return strconv.Quote(s)
	}
	return s
}

// send writes one packet, and never waits longer than sendWithin.
func (o *output) send(origin string, level Level, text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost > 0 {
		text += fmt.Sprintf(" (%d earlier lines were lost: init did not take them)", o.lost)
	}
	packet := EncodePacket(origin, level, text)
	err := o.offer(packet)
	if o.lost == 0 && errors.Is(err, syscall.EAGAIN) {
		err = o.insist(packet)
	}
	if err != nil {
		o.lost++
		return fmt.Errorf("send log record: %w", err)
	}
	o.lost = 0
	return nil
}

// offer writes a packet if that needs no wait; else the error is EAGAIN. It has
// no deadline, because one that passes before the write begins, on a machine
// that stands still for so long, loses a record that would have been taken.
func (o *output) offer(packet []byte) error {
	c, ok := o.w.(syscall.Conn)
	if !ok {
		_, err := o.w.Write(packet)
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var wrote error
	err = raw.Write(func(fd uintptr) bool {
		_, wrote = syscall.Write(int(fd), packet)
		return true // waiting is insist's
	})
	return cmp.Or(err, wrote)
}

// insist waits for a write.
func (o *output) insist(packet []byte) error {
	if d, ok := o.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		d.SetWriteDeadline(time.Now().Add(sendWithin))
		defer d.SetWriteDeadline(time.Time{})
	}
	_, err := o.w.Write(packet)
	return err
}
