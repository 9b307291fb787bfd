package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// codeStreamGone and codeNoMessage are JetStream's error codes for a missing stream and a missing
// message (JSStreamNotFoundErr, JSNoMessageFoundErr).
const (
	codeStreamGone jetstream.ErrorCode = 10059
	codeNoMessage  jetstream.ErrorCode = 10037
)

// LogReader reads a log message by message, for readers of history. It asks the server that leads
// the stream, so that it sees every acknowledged message, and creates no consumer.
type LogReader struct {
	conn   *Conn
	stream string
}

// Logged is a message of a log.
type Logged struct {
	Message
	// Sequence is its position in the log, which rises by at least 1 from message to message.
	Sequence uint64
	// Time is when the log stored it, by the clock of the server that led the log.
	Time time.Time
}

// LogSpan is the range of messages that a log holds at present.
type LogSpan struct {
	// First and Last are the sequences of its oldest and newest message. In an empty log, Last is
	// below First.
	First, Last uint64
	// Oldest is when the log stored its oldest message; zero for an empty log.
	Oldest time.Time
}

// ReadLog returns a reader of the log with this name, whether or not the log exists.
func (c *Conn) ReadLog(stream string) *LogReader { return &LogReader{conn: c, stream: stream} }

// Span returns the range of messages that the log holds; ErrNone if there is no log.
func (r *LogReader) Span(ctx context.Context) (LogSpan, error) {
	what := "reading the span of the log " + r.stream
	var answer struct {
		logError
		State struct {
			First  uint64    `json:"first_seq"`
			Last   uint64    `json:"last_seq"`
			Count  uint64    `json:"messages"`
			Oldest time.Time `json:"first_ts"`
		} `json:"state"`
	}
	if err := r.request(ctx, "STREAM.INFO", nil, &answer); err != nil {
		return LogSpan{}, wrap(what, err)
	}
	if err := answer.err(); err != nil {
		return LogSpan{}, fmt.Errorf("%s: %w", what, err)
	}
	span := LogSpan{First: answer.State.First, Last: answer.State.Last, Oldest: answer.State.Oldest}
	if answer.State.Count == 0 {
		span.First, span.Oldest = span.Last+1, time.Time{}
	}
	return span, nil
}

// Next returns the first message at a subject, which may contain wildcards, whose sequence is at
// least from; ErrNone if there is no such message or no log.
func (r *LogReader) Next(ctx context.Context, subject string, from uint64) (Logged, error) {
	return r.get(ctx, logRequest{Sequence: max(from, 1), Subject: subject})
}

// NextSince returns the first message at a subject that the log stored at or after since; ErrNone
// if there is no such message or no log.
func (r *LogReader) NextSince(ctx context.Context, subject string, since time.Time) (Logged, error) {
	return r.get(ctx, logRequest{Since: &since, Subject: subject})
}

// logRequest is the part of JetStream's JSApiMsgGetRequest that LogReader uses.
type logRequest struct {
	Sequence uint64     `json:"seq,omitempty"`
	Subject  string     `json:"next_by_subj"`
	Since    *time.Time `json:"start_time,omitempty"`
}

type logError struct {
	Error *jetstream.APIError `json:"error"`
}

func (e logError) err() error {
	if e.Error == nil {
		return nil
	}
	if e.Error.ErrorCode == codeStreamGone || e.Error.ErrorCode == codeNoMessage {
		return ErrNone
	}
	return e.Error
}

func (r *LogReader) get(ctx context.Context, request logRequest) (Logged, error) {
	what := fmt.Sprintf("reading a message at %s from the log %s", request.Subject, r.stream)
	var answer struct {
		logError
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Logged{}, fmt.Errorf("%s: %w", what, err)
	}
	if err := r.request(ctx, "STREAM.MSG.GET", body, &answer); err != nil {
		return Logged{}, wrap(what, err)
	}
	if err := answer.err(); err != nil {
		return Logged{}, fmt.Errorf("%s: %w", what, err)
	}
	m := answer.Message
	if m == nil {
		return Logged{}, fmt.Errorf("%s: the answer holds no message", what)
	}
	return Logged{Message: Message{Subject: m.Subject, Data: m.Data}, Sequence: m.Sequence, Time: m.Time}, nil
}

// request sends a request to JetStream. If ctx has no deadline, it waits for flushTimeout.
func (r *LogReader) request(ctx context.Context, call string, body []byte, answer any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flushTimeout)
		defer cancel()
	}
	reply, err := r.conn.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+call+"."+r.stream, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return ErrNoLog // JetStream is down
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("reading JetStream's answer: %w", err)
	}
	return nil
}
