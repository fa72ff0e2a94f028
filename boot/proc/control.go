package proc

import (
	"context"
	"net"
	"syscall"
	"time"
)

// The operations of the control socket. init serves them (boot/pid1), the
// agent calls them through Client.
const (
	OpStage    = "stage"
	OpStart    = "start"
	OpSignal   = "signal"
	OpList     = "list"
	OpWait     = "wait"
	OpLog      = "log"
	OpConsoles = "consoles"
	OpCrashes  = "crashes"
	OpRestart  = "restart"
	OpKeep     = "keep"
	OpKept     = "kept"
)

// Nothing is the argument or result of an operation that has none.
type Nothing struct{}

// Progress is the agent's sign of life and what consoles show of the boot:
// where it is, and what it waits for.
type Progress struct {
	Stage   string          `json:"stage"`
	Waiting string          `json:"waiting,omitempty"`
	Stages  []StageProgress `json:"stages,omitempty"` // in the order of the boot
	Facts   Facts           `json:"facts"`
}

// StageState is what a stage is at.
type StageState string

// The states of a stage, in the words that people read.
const (
	StagePending StageState = ""
	StageRunning StageState = "running"
	StageWaiting StageState = "waiting" // for something that it names
	StageHeld    StageState = "held"    // until an operator has done something
	StageDone    StageState = "done"
)

// StageProgress is one stage of the boot.
type StageProgress struct {
	Name  string        `json:"name"`
	State StageState    `json:"state,omitempty"`
	For   time.Duration `json:"for,omitempty"` // that it took, or has been at it
}

// Facts is what the agent has found out so far; empty is not known yet.
type Facts struct {
	Name      string   `json:"name,omitempty"`
	Addresses []string `json:"addresses,omitempty"` // that a socket can use, a few
	Cluster   string   `json:"cluster,omitempty"`   // what the node is to it
	Config    string   `json:"config,omitempty"`    // where it comes from and how safe it is
}

// Target names one incarnation of a process.
type Target struct {
	Name        string         `json:"name"`
	Incarnation uint64         `json:"incarnation"`
	Signal      syscall.Signal `json:"signal,omitempty"`
}

// LogQuery asks for a page of init's log, oldest first, from a sequence number.
type LogQuery struct {
	From    uint64   `json:"from"`
	Origins []string `json:"origins,omitempty"` // empty: all
	Level   string   `json:"level,omitempty"`   // the least level; empty: all
	Max     int      `json:"max"`               // records, at most MaxLogPage
	Wait    bool     `json:"wait"`              // block until there is at least one
}

// MaxLogPage and MaxLogBytes bound a page, so that a reply stays under a frame
// even when JSON doubles it; a single record is at most 128 KiB.
const (
	MaxLogPage  = 256
	MaxLogBytes = 256 << 10
)

// LogPage is the answer to a LogQuery.
type LogPage struct {
	Records []LogRecord `json:"records"`
	Lost    uint64      `json:"lost"` // older than the ring still holds
	Next    uint64      `json:"next"` // the From of the next query
	End     uint64      `json:"end"`  // one past the newest record of all
}

// LogRecord is one line of the log as it crosses the control socket.
type LogRecord struct {
	Seq    uint64        `json:"seq"`
	Uptime time.Duration `json:"uptime"`
	Origin string        `json:"origin"`
	Level  string        `json:"level"`
	Text   string        `json:"text"`
}

// ConsoleStats is what a console has shown and dropped so far.
type ConsoleStats struct {
	Name         string `json:"name"`
	WrittenBytes uint64 `json:"writtenBytes"`
	DroppedLines uint64 `json:"droppedLines"`
	Stalled      bool   `json:"stalled"`
}

// Crashes counts the agent's deaths in this boot.
type Crashes struct {
	Count uint32 `json:"count"`
	Last  string `json:"last,omitempty"` // the reason of the newest, one line
}

// RestartHow says what becomes of the machine.
type RestartHow string

// The kernel's reboot(2) commands that operators ask for.
const (
	Reboot   RestartHow = "reboot"
	PowerOff RestartHow = "poweroff"
)

// Restart asks init to stop everything in order and reboot or power off.
type Restart struct {
	How    RestartHow `json:"how"`
	Reason string     `json:"reason"` // shown first on every console
	Forced bool       `json:"-"`      // init's own decision, for an agent that dies in a loop
}

// MaxKept bounds what init keeps for the agent in a slot: an opened config with a
// directory of some hundred controllers is under 64 KiB.
const MaxKept = 256 << 10

// Kept is what an agent leaves with init for the agent after it. init never looks
// into it, and it never reaches the log nor a disk.
type Kept struct {
	Slot Slot   `json:"slot"`
	Data []byte `json:"data"`
}

// Slot is one of the things that are kept, each in place of what was there.
type Slot string

// The slots.
const (
	KeptConfig   Slot = "config"    // opened, which the TPM gives out only once a boot
	KeptNodeYAML Slot = "node.yaml" // and where it was found
	KeptServices Slot = "services"  // of the cluster, that are in force, stored or not
)

// Client is the agent's side of the control socket. Its methods are safe for
// concurrent use and fail with ErrInitGone when init closed the socket.
type Client struct{ c *caller }

// NewClient takes conn over.
func NewClient(conn net.Conn) *Client { return &Client{newCaller(conn)} }

// SetStage tells init where the boot is; repeated, it is the agent's heartbeat.
func (c *Client) SetStage(ctx context.Context, p Progress) error {
	return c.c.call(ctx, OpStage, p, &Nothing{})
}

// Start has init start a process; its output goes to the log under its name.
func (c *Client) Start(ctx context.Context, spec Spec) (Process, error) {
	return reply[Process](ctx, c, OpStart, spec)
}

// Signal signals the process group of one incarnation.
func (c *Client) Signal(ctx context.Context, t Target) error {
	return c.c.call(ctx, OpSignal, t, &Nothing{})
}

// List returns init's process table, the agent itself included.
func (c *Client) List(ctx context.Context) ([]Process, error) {
	return reply[[]Process](ctx, c, OpList, Nothing{})
}

// Wait returns once the incarnation has exited.
func (c *Client) Wait(ctx context.Context, t Target) (Process, error) {
	return reply[Process](ctx, c, OpWait, t)
}

// Log reads a page of init's log.
func (c *Client) Log(ctx context.Context, q LogQuery) (LogPage, error) {
	return reply[LogPage](ctx, c, OpLog, q)
}

// Consoles returns a row for each console.
func (c *Client) Consoles(ctx context.Context) ([]ConsoleStats, error) {
	return reply[[]ConsoleStats](ctx, c, OpConsoles, Nothing{})
}

// Crashes returns the agent's deaths in this boot.
func (c *Client) Crashes(ctx context.Context) (Crashes, error) {
	return reply[Crashes](ctx, c, OpCrashes, Nothing{})
}

// Restart asks for a reboot or power-off; it returns when init has accepted.
func (c *Client) Restart(ctx context.Context, r Restart) error {
	return c.c.call(ctx, OpRestart, r, &Nothing{})
}

// Keep leaves data with init, in place of what was in the slot before.
func (c *Client) Keep(ctx context.Context, slot Slot, data []byte) error {
	return c.c.call(ctx, OpKeep, Kept{slot, data}, &Nothing{})
}

// Kept returns what the agent before this one left; nil when it left nothing.
func (c *Client) Kept(ctx context.Context, slot Slot) ([]byte, error) {
	k, err := reply[Kept](ctx, c, OpKept, Kept{Slot: slot})
	return k.Data, err
}

func reply[Out any](ctx context.Context, c *Client, op string, in any) (out Out, err error) {
	err = c.c.call(ctx, op, in, &out)
	return out, err
}
