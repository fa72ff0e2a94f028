package netcfg

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// message is one that was received. Its data lasts until the next receive.
type message struct {
	typ, flags uint16
	data       []byte
}

// answer goes through the messages that answer request seq, up to the last.
func answer(b []byte, seq uint32, each func(message)) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		length := int(binary.NativeEndian.Uint32(b))
		if length < unix.SizeofNlMsghdr || length > len(b) {
			return false, errShort
		}
		m := message{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), b[unix.SizeofNlMsghdr:length]}
		of := binary.NativeEndian.Uint32(b[8:])
		b = b[min(nlAlign(length), len(b)):]
		switch {
		case of != seq: // of a request that was given up
			continue
		case m.typ == unix.NLMSG_ERROR:
			return true, m.errno()
		}
		if each(m); m.typ == unix.NLMSG_DONE {
			return true, m.errno()
		}
	}
	return false, nil
}

// errno is what an acknowledgement, or the end of a list, says (struct
// nlmsgerr): nil for success.
func (m message) errno() error {
	if len(m.data) < 4 {
		return errShort
	}
	code := int32(binary.NativeEndian.Uint32(m.data))
	if code == 0 {
		return nil
	}
	err := error(unix.Errno(-code))
	header := 4
	if m.typ == unix.NLMSG_ERROR {
		header += unix.SizeofNlMsghdr // of the request
	}
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return err
	}
	explained := err
	if attributes(m.data, header, func(a attribute) {
		if a.Type == unix.NLMSGERR_ATTR_MSG {
			explained = fmt.Errorf("%w (%s)", err, a.text())
		}
	}) != nil {
		return err
	}
	return explained
}
