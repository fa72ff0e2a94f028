// Package console takes lines in and paces them out to consoles that may be
// slow, stalled or dead, without ever making a caller wait.
//
//	pipes, log socket, /dev/kmsg, crash text
//	        |  Copy, DecodePacket, ReadKernel, CrashReport
//	        v
//	      Log         the ring: every record, a byte bound per origin
//	        |  offer (short mutex, never a wait)
//	        v
//	     Engine       one writer per console: lanes -> pacer -> Port
//
// It runs in PID 1, so nothing here panics on outside bytes, waits for a
// device in a caller's goroutine, or grows without a bound.
package console
