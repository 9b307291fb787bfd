package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits of unacknowledged messages.
const (
	// MaxUnacknowledged is how many messages of a log may wait for acknowledgement.
	MaxUnacknowledged = 10_000
	// MaxUnacknowledgedBytes is how many bytes these messages may have in total.
	MaxUnacknowledgedBytes = 64 << 20
	// ackTimeout is how long one message waits. JetStream silently loses acknowledgements when its
	// leader changes, which takes up to 9 s.
	ackTimeout = 10 * time.Second
)

// codeOverlap is JetStream's error code for a stream whose subjects overlap those of another
// (JSStreamSubjectOverlapErr).
const codeOverlap jetstream.ErrorCode = 10065

// flushTimeout bounds a wait for the server when the context has no deadline.
const flushTimeout = 10 * time.Second

// Errors of a log.
var (
	// ErrNone means that the log holds no message at a subject.
	ErrNone = errors.New("the log holds no such message")
	// ErrNotTracked means that a message was sent, but that too many messages wait for
	// acknowledgement: the caller will not learn whether the log has this one.
	ErrNotTracked = errors.New("sent, but too many messages wait for their acknowledgement")
	// ErrNotAcknowledged means that the log did not acknowledge a message within 10 s. It may hold
	// the message nevertheless.
	ErrNotAcknowledged = errors.New("the log did not acknowledge the message")
	// ErrNoLog means that no log stores the subject of a message, or that JetStream is down.
	ErrNoLog = errors.New("no log stores the message")
)

// LogConfig sets what a log stores and for how long.
type LogConfig struct {
	// Stream is the log's name in JetStream: letters, digits, - and _.
	Stream string
	// Subjects are the subjects whose messages it stores.
	Subjects []string
	// MaxAge and MaxBytes limit the log, which drops the oldest messages first; 0 means no limit.
	MaxAge   time.Duration
	MaxBytes int64
	// Replicas is how many servers store it; 0 means 1.
	Replicas int
	// Supersedes, if not empty, is the name prefix of other logs to delete if they store one of
	// Subjects: no two logs may.
	Supersedes string
	// DuplicateWindow is how long JetStream remembers a message ID; 0 means 2 min.
	DuplicateWindow time.Duration
}

// Log is a JetStream stream that stores messages. It never has consumers: followers use Subscribe.
type Log struct {
	conn   *Conn
	js     jetstream.JetStream
	stream string
	inbox  string
	sub    *Subscription
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	next    uint64
	pending map[uint64]unacknowledged
	bytes   int
	closed  bool
}

type unacknowledged struct {
	sent  time.Time
	size  int
	acked func(error)
}

// OpenLog creates the log or updates an existing one to cfg, and opens it for writing. ctx bounds
// only the opening; the log is open until it or the connection is closed.
func (c *Conn) OpenLog(ctx context.Context, cfg LogConfig) (*Log, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, fmt.Errorf("opening the log %s: %w", cfg.Stream, err)
	}
	if cfg.DuplicateWindow == 0 {
		cfg.DuplicateWindow = 2 * time.Minute
	}
	if cfg.MaxAge > 0 {
		// JetStream refuses to remember IDs of messages for longer than the messages.
		cfg.DuplicateWindow = min(cfg.DuplicateWindow, cfg.MaxAge)
	}
	settings := jetstream.StreamConfig{
		Name:        cfg.Stream,
		Description: "Garboard's watch messages; may be deleted at any moment",
		Subjects:    cfg.Subjects,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		Storage:     jetstream.FileStorage,
		MaxAge:      cfg.MaxAge,
		MaxBytes:    max(cfg.MaxBytes, 0),
		Replicas:    max(cfg.Replicas, 1),
		Duplicates:  cfg.DuplicateWindow,
		// Direct reads may be answered by a replica that is behind, and the reader names the
		// subject of the answer. Neither is acceptable here.
		AllowDirect: false,
	}
	_, err = js.CreateOrUpdateStream(ctx, settings)
	if overlaps(err) && cfg.Supersedes != "" {
		if err = deleteOthers(ctx, js, cfg); err == nil {
			_, err = js.CreateOrUpdateStream(ctx, settings)
		}
	}
	if err != nil {
		return nil, wrap("opening the log "+cfg.Stream, err)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Log{
		conn: c, js: js, stream: cfg.Stream, inbox: c.NewInbox(),
		cancel: cancel, done: make(chan struct{}), pending: map[uint64]unacknowledged{},
	}
	l.sub, err = c.Subscribe(life, l.inbox+".*", l.acknowledged)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening the log %s: %w", cfg.Stream, err)
	}
	go l.expire(life)
	return l, nil
}

// overlaps reports whether JetStream refused a log because another stores one of its subjects.
func overlaps(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == codeOverlap
}

// deleteOthers deletes the logs that cfg supersedes.
func deleteOthers(ctx context.Context, js jetstream.JetStream, cfg LogConfig) error {
	for _, subject := range cfg.Subjects {
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range names.Name() {
			if name == cfg.Stream || !strings.HasPrefix(name, cfg.Supersedes) {
				continue
			}
			if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return fmt.Errorf("deleting the log %s, which keeps %s too: %w", name, subject, err)
			}
		}
		if err := names.Err(); err != nil {
			return fmt.Errorf("looking for logs that keep %s: %w", subject, err)
		}
	}
	return nil
}

// PublishAsync sends a message at a subject of the log and returns at once. It calls acked once,
// from another goroutine: with nil when the log has stored the message, otherwise with the reason
// to believe that it has not. A msgID, if not empty, prevents a repeated message from being stored
// twice.
//
// If the message would exceed MaxUnacknowledged or MaxUnacknowledgedBytes, it is sent anyway and
// the error is ErrNotTracked. With any other error nothing was sent. In both cases acked is never
// called.
func (l *Log) PublishAsync(subject string, data []byte, msgID string, acked func(error)) error {
	msg := &nats.Msg{Subject: subject, Data: data}
	if msgID != "" {
		msg.Header = nats.Header{nats.MsgIdHdr: []string{msgID}}
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return fmt.Errorf("publishing at %s: the log %s is closed", subject, l.stream)
	}
	tracked := len(l.pending) < MaxUnacknowledged && l.bytes+len(data) <= MaxUnacknowledgedBytes
	id := l.next
	if tracked {
		l.next++
		l.bytes += len(data)
		l.pending[id] = unacknowledged{sent: time.Now(), size: len(data), acked: acked}
		msg.Reply = l.inbox + "." + strconv.FormatUint(id, 36)
	}
	l.mu.Unlock()
	if err := l.conn.nc.PublishMsg(msg); err != nil {
		if tracked {
			l.remove(id)
		}
		return wrap("publishing at "+subject, err)
	}
	if !tracked {
		return ErrNotTracked
	}
	return nil
}

// Unacknowledged returns how many messages wait for acknowledgement.
func (l *Log) Unacknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// Last returns the newest message at a subject, which may contain wildcards, or ErrNone. The result
// is a hint: the log may have lost newer messages.
func (l *Log) Last(ctx context.Context, subject string) (Message, error) {
	what := fmt.Sprintf("reading the last message at %s from the log %s", subject, l.stream)
	stream, err := l.js.Stream(ctx, l.stream)
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return Message{}, fmt.Errorf("%s: %w", what, ErrNone)
		}
		return Message{}, wrap(what, err)
	}
	raw, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return Message{}, fmt.Errorf("%s: %w", what, ErrNone)
		}
		return Message{}, wrap(what, err)
	}
	return Message{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, nil
}

// Close closes the log for this process and fails unacknowledged messages with ErrNotAcknowledged.
// The stream remains.
func (l *Log) Close() {
	l.cancel()
	l.sub.Unsubscribe()
	<-l.done
	<-l.sub.Done()
	l.mu.Lock()
	l.closed = true // From here on nobody would call acked.
	l.mu.Unlock()
	l.fail(func(unacknowledged) bool { return true })
}

func (l *Log) remove(id uint64) (unacknowledged, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u, ok := l.pending[id]
	if ok {
		delete(l.pending, id)
		l.bytes -= u.size
	}
	return u, ok
}

func (l *Log) acknowledged(m Message) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	u, ok := l.remove(id)
	if !ok {
		return
	}
	u.acked(ackError(m))
}

func ackError(m Message) error {
	if m.NoResponders() {
		return ErrNoLog
	}
	var ack struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return fmt.Errorf("reading an acknowledgement of the log: %w", err)
	}
	if ack.Error != nil {
		return fmt.Errorf("storing a message in the log: %w", ack.Error)
	}
	if ack.Stream == "" {
		return errors.New("reading an acknowledgement of the log: it names no stream")
	}
	return nil
}

func (l *Log) expire(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(ackTimeout / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.conn.closed:
			return
		case now := <-ticker.C:
			l.fail(func(u unacknowledged) bool { return now.Sub(u.sent) >= ackTimeout })
		}
	}
}

func (l *Log) fail(which func(unacknowledged) bool) {
	l.mu.Lock()
	var failed []unacknowledged
	for id, u := range l.pending {
		if which(u) {
			failed = append(failed, u)
			delete(l.pending, id)
			l.bytes -= u.size
		}
	}
	l.mu.Unlock()
	for _, u := range failed {
		u.acked(ErrNotAcknowledged)
	}
}
