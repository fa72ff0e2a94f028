//go:build faults

package proc

import "context"

// OpFault has init do something fatal, for tests.
const OpFault = "fault"

// Fault names what to do: "panic", "exit", "stop", "stop-late", "term", "pwr".
type Fault struct {
	Kind string `json:"kind"`
}

// Fault asks for it. The answer is the end of the socket.
func (c *Client) Fault(ctx context.Context, kind string) error {
	return c.c.call(ctx, OpFault, Fault{kind}, &Nothing{})
}
