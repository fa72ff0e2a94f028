package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
)

// CopyLogs writes a node's log as it arrives, until it ends. An ended ctx (the
// operator's ^C) is no error.
func CopyLogs(ctx context.Context, client clusterv1connect.OperatorServiceClient, req *clusterv1.NodeLogsRequest, format Format, w io.Writer) error {
	stream, err := client.NodeLogs(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // the stream's error is Err's
	out := bufio.NewWriter(w)
	for stream.Receive() {
		if err := format.writeRecord(out, RecordOf(stream.Msg())); err != nil {
			return err
		}
		if !req.GetLogs().GetFollow() {
			continue
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return stream.Err()
}

// writeRecord is Write for streams: JSON is one object a line, YAML one
// document a record.
func (f Format) writeRecord(w io.Writer, r Record) error {
	var err error
	switch f {
	case JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		err = e.Encode(r)
	case YAML:
		if _, err = io.WriteString(w, "---\n"); err == nil {
			err = writeYAML(w, r)
		}
	default:
		err = WriteRecord(w, r)
	}
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
