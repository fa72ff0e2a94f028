package crash

// Stored is a record as it was found.
type Stored struct {
	Record
	ID  string
	Raw []byte
}

// Decode checks a record's bytes and gives it its id.
func Decode(raw []byte) (Stored, error) {
	r, n, err := Parse(raw)
	if err != nil {
		return Stored{}, err
	}
	return Stored{Record: r, ID: ID(raw), Raw: raw[:n:n]}, nil
}

// Short is the record in at most limit bytes, for a place that is small: with
// the start of its trace, and what room then is for the end of the log.
func (s Stored) Short(limit int) []byte {
	if len(s.Raw) <= limit {
		return s.Raw
	}
	r := s.Record
	r.Trace, r.Log, r.Dmesg = nil, nil, nil
	room := max(limit-len(r.Encode()), 0)
	r.Trace = s.Trace[:min(len(s.Trace), room/2)]
	room -= len(r.Trace)
	r.Log = lastLines(s.Log, room)
	r.Dmesg = lastLines(s.Dmesg, room-len(r.Log))
	return r.Encode()
}

// SameDeath tells whether two records are of one death, perhaps one of them
// shortened. The kernel's dumps tell of no boot; only equal ones are the same.
func (s Stored) SameDeath(o Stored) bool {
	if s.BootID == "" {
		return s.ID == o.ID
	}
	return s.Kind == o.Kind && s.BootID == o.BootID && s.Incarnation == o.Incarnation && s.Uptime == o.Uptime
}
