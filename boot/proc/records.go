package proc

import "context"

// The operations on crash records. init alone writes them; the agent, which
// may be the one that died, takes them to the cluster.
const (
	OpMounted   = "mounted"
	OpRecords   = "records"
	OpRecord    = "record"
	OpForget    = "forget"
	OpLastBoot  = "last-boot"
	OpAddRecord = "add-record"
)

// RecordID names a crash record (boot/crash).
type RecordID struct {
	ID string `json:"id"`
}

// RawRecord is a record's bytes.
type RawRecord struct {
	Data []byte `json:"data"`
}

// LastBoot is how the boot before this one ended; empty while that is not known.
type LastBoot struct {
	End    string `json:"end,omitempty"`    // crash.End: "clean", "power loss"
	Reason string `json:"reason,omitempty"` // one line
}

// AddRecord has init keep a record of a service's death.
func (c *Client) AddRecord(ctx context.Context, raw []byte) error {
	return c.c.call(ctx, OpAddRecord, RawRecord{raw}, &Nothing{})
}

// Mounted tells init that the state partition is mounted; it would notice by
// itself, a little later.
func (c *Client) Mounted(ctx context.Context) error {
	return c.c.call(ctx, OpMounted, Nothing{}, &Nothing{})
}

// Records returns the records that the cluster does not have, oldest first.
func (c *Client) Records(ctx context.Context) ([]RecordID, error) {
	return reply[[]RecordID](ctx, c, OpRecords, Nothing{})
}

// Record returns one of them.
func (c *Client) Record(ctx context.Context, id string) ([]byte, error) {
	r, err := reply[RawRecord](ctx, c, OpRecord, RecordID{id})
	return r.Data, err
}

// Forget says that the cluster has the record; init removes it.
func (c *Client) Forget(ctx context.Context, id string) error {
	return c.c.call(ctx, OpForget, RecordID{id}, &Nothing{})
}

// LastBoot returns how the boot before this one ended.
func (c *Client) LastBoot(ctx context.Context) (LastBoot, error) {
	return reply[LastBoot](ctx, c, OpLastBoot, Nothing{})
}
