package netcfg

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// This file is netlink's attributes (struct nlattr, include/uapi/linux/
// netlink.h): a length, a type and data, padded to 4 bytes. A network of 1,000
// vlans is 10,000 messages of some ten attributes, so nothing is copied that
// need not be.

const (
	attrHeader = unix.SizeofNlAttr
	attrFlags  = unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER
)

// attrs is attributes in the making.
type attrs struct {
	b   []byte
	err error // of the first that could not be made
}

func (a *attrs) Bytes(typ uint16, data []byte) {
	at := a.begin(typ)
	a.b = append(a.b, data...)
	a.end(at)
}

// String ends in a zero byte, as the kernel wants it.
func (a *attrs) String(typ uint16, s string) {
	at := a.begin(typ)
	a.b = append(append(a.b, s...), 0)
	a.end(at)
}

func (a *attrs) Uint8(typ uint16, n uint8) {
	at := a.begin(typ)
	a.b = append(a.b, n)
	a.end(at)
}

func (a *attrs) Uint16(typ uint16, n uint16) {
	at := a.begin(typ)
	a.b = binary.NativeEndian.AppendUint16(a.b, n)
	a.end(at)
}

func (a *attrs) Uint32(typ uint16, n uint32) {
	at := a.begin(typ)
	a.b = binary.NativeEndian.AppendUint32(a.b, n)
	a.end(at)
}

// Nested is one whose data is what encode makes.
func (a *attrs) Nested(typ uint16, encode func(*attrs) error) {
	at := a.begin(typ | unix.NLA_F_NESTED)
	if err := encode(a); a.err == nil {
		a.err = err
	}
	a.end(at)
}

// begin writes the header and returns where; end fills its length in.
func (a *attrs) begin(typ uint16) int {
	at := len(a.b)
	a.b = binary.NativeEndian.AppendUint16(a.b, 0)
	a.b = binary.NativeEndian.AppendUint16(a.b, typ)
	return at
}

func (a *attrs) end(at int) {
	binary.NativeEndian.PutUint16(a.b[at:], uint16(len(a.b)-at))
	for len(a.b)%unix.NLA_ALIGNTO != 0 {
		a.b = append(a.b, 0)
	}
}

// attribute is one that was received. Its data lasts until the next message.
type attribute struct {
	Type uint16
	data []byte
	bad  *error // of the walk
}

var (
	errShort     = errors.New("message is shorter than its header")
	errAttribute = errors.New("attribute is longer than its message")
)

// attributes walks the attributes behind a fixed header.
func attributes(data []byte, header int, each func(attribute)) error {
	if len(data) < header {
		return errShort
	}
	var bad error
	walk(data[header:], &bad, each)
	return bad
}

func walk(b []byte, bad *error, each func(attribute)) {
	for len(b) >= attrHeader {
		length := int(binary.NativeEndian.Uint16(b))
		if length < attrHeader || length > len(b) {
			*bad = errAttribute
			return
		}
		each(attribute{binary.NativeEndian.Uint16(b[2:]) &^ attrFlags, b[attrHeader:length], bad})
		b = b[min(nlAlign(length), len(b)):]
	}
}

// nlAlign is NLMSG_ALIGN and NLA_ALIGN.
func nlAlign(n int) int { return (n + unix.NLMSG_ALIGNTO - 1) &^ (unix.NLMSG_ALIGNTO - 1) }

// nested walks the attributes inside one.
func (a attribute) nested(each func(attribute)) { walk(a.data, a.bad, each) }

// number is the unsigned number of 1, 2 or 4 bytes.
func (a attribute) number() int {
	switch len(a.data) {
	case 1:
		return int(a.data[0])
	case 2:
		return int(binary.NativeEndian.Uint16(a.data))
	case 4:
		return int(binary.NativeEndian.Uint32(a.data))
	}
	*a.bad = errAttribute
	return 0
}

// text is the string up to its zero byte.
func (a attribute) text() string { return unix.ByteSliceToString(a.data) }
