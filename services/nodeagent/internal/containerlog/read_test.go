package containerlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// at returns the time that many seconds after the first entry of the tests.
func at(seconds int) time.Time {
	return time.Date(2026, 11, 21, 10, 0, seconds, 120_000_000, time.UTC)
}

func line(seconds int, text string) string {
	return string(Format(at(seconds), Stdout, false, []byte(text)))
}

func part(seconds int, text string) string {
	return string(Format(at(seconds), Stdout, true, []byte(text)))
}

func errLine(seconds int, text string) string {
	return string(Format(at(seconds), Stderr, false, []byte(text)))
}

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	abc := line(0, "a") + line(1, "b") + line(2, "c")
	for _, test := range []struct {
		name, file string
		opts       Options
		want       string
	}{
		{"empty", "", Options{}, ""},
		{"all", abc, Options{}, "a\nb\nc\n"},
		{"empty line", line(0, "") + line(1, "x"), Options{}, "\nx\n"},
		{"empty line without its last space", strings.TrimSuffix(line(0, ""), " \n") + "\n" + line(1, "x"), Options{}, "\nx\n"},
		{"spaces are kept", line(0, "  a  b "), Options{}, "  a  b \n"},
		{"carriage returns are kept", line(0, "50%\r100%"), Options{}, "50%\r100%\n"},
		{"both streams", line(0, "out") + errLine(1, "err"), Options{}, "out\nerr\n"},
		{"one stream", line(0, "out") + errLine(1, "err"), Options{Only: Stderr}, "err\n"},
		{"tail", abc, Options{Tail: new(int64(2))}, "b\nc\n"},
		{"tail none", abc, Options{Tail: new(int64(0))}, ""},
		{"tail longer than the log", abc, Options{Tail: new(int64(10))}, "a\nb\nc\n"},
		{"tail of one stream", line(0, "a") + errLine(1, "x") + errLine(2, "y"), Options{Tail: new(int64(1)), Only: Stdout}, "a\n"},
		{"tail counts lines, not entries", line(0, "a") + part(1, "b") + part(1, "b") + line(1, "b") + line(2, "c"), Options{Tail: new(int64(2))}, "bbb\nc\n"},
		{"tail of an unfinished line", line(0, "a") + part(1, "b") + part(2, "c"), Options{Tail: new(int64(1))}, "bc"},
		{"since", abc, Options{Since: at(1)}, "b\nc\n"},
		{"since after the last entry", abc, Options{Since: at(9)}, ""},
		{"since and tail", abc, Options{Since: at(1), Tail: new(int64(1))}, "c\n"},
		{"timestamps", line(0, "a"), Options{Timestamps: true}, "2026-11-21T10:00:00.120000000Z a\n"},
		{"a timestamp for each line, not each entry", part(0, "a") + line(1, "b") + line(2, "c"), Options{Timestamps: true},
			"2026-11-21T10:00:00.120000000Z ab\n2026-11-21T10:00:02.120000000Z c\n"},
		{"limit in a line", abc, Options{LimitBytes: new(int64(3))}, "a\nb"},
		{"limit at a line's end", abc, Options{LimitBytes: new(int64(4))}, "a\nb\n"},
		{"limit over all", abc, Options{LimitBytes: new(int64(100))}, "a\nb\nc\n"},
		{"limit counts timestamps", abc, Options{LimitBytes: new(int64(4)), Timestamps: true}, "2026"},
		{"partial entries", part(0, "a") + part(0, "b") + line(0, "c"), Options{}, "abc\n"},
		{"last line without its end", line(0, "a") + strings.TrimSuffix(line(1, "b"), "\n"), Options{}, "a\nb\n"},
		{"tags after the first", "2026-11-21T10:00:00Z stdout P:more a\n2026-11-21T10:00:00Z stdout F:x:y b\n", Options{}, "ab\n"},
		{"damaged entries are skipped", "nonsense\n\n" + line(0, "a") + "2026-11-21T10:00:00Z stdin F x\n2026-11-21T10:00:00Z stdout Q x\n" + line(1, "b"), Options{}, "a\nb\n"},
		{"tail over damaged entries", line(0, "a") + "nonsense\n" + line(1, "b") + "nonsense\n", Options{Tail: new(int64(2))}, "a\nb\n"},
		{"a long line", line(0, strings.Repeat("x", 200_000)) + line(1, "b"), Options{}, strings.Repeat("x", 200_000) + "\nb\n"},
		{"a line longer than memory allows", line(0, strings.Repeat("x", 3*maxEntry+7)) + line(1, "b"), Options{Timestamps: true},
			"2026-11-21T10:00:00.120000000Z " + strings.Repeat("x", 3*maxEntry+7) + "\n2026-11-21T10:00:01.120000000Z b\n"},
		{"a long damaged line", strings.Repeat("x", 3*maxEntry+7) + "\n" + line(1, "b"), Options{}, "b\n"},
		{"tail over many blocks", strings.Repeat(line(0, strings.Repeat("y", 1000)), 300) + line(1, strings.Repeat("x", 200_000)) + line(2, "b"),
			Options{Tail: new(int64(2))}, strings.Repeat("x", 200_000) + "\nb\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			if err := Read(t.Context(), write(t, test.file), test.opts, nil, &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got %q, want %q", shorten(out.String()), shorten(test.want))
			}
		})
	}
}

func shorten(s string) string {
	if len(s) > 300 {
		return fmt.Sprintf("%s…%s (%d bytes)", s[:100], s[len(s)-100:], len(s))
	}
	return s
}

func TestReadRefuses(t *testing.T) {
	path := write(t, line(0, "a"))
	for name, opts := range map[string]Options{
		"the number of last lines -1 is negative": {Tail: new(int64(-1))},
		"the limit of 0 bytes is not positive":    {LimitBytes: new(int64(0))},
		`unknown stream "stdin"`:                  {Only: "stdin"},
	} {
		if err := Read(t.Context(), path, opts, nil, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	if err := Read(t.Context(), path+".not", Options{}, nil, &strings.Builder{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing log: %v", err)
	}
	broken := errors.New("the reader is gone")
	if err := Read(t.Context(), path, Options{}, nil, writerFunc(func([]byte) (int, error) { return 0, broken })); !errors.Is(err, broken) {
		t.Errorf("a reader that is gone: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

// follow reads the log at path while steps run, one per second; the container ends after the last
// step.
func follow(t *testing.T, path string, opts Options, steps ...func()) string {
	t.Helper()
	opts.Follow = true
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		alive.Store(true)
		done := make(chan error, 1)
		go func() {
			done <- Read(t.Context(), path, opts, func(context.Context) (bool, error) { return alive.Load(), nil }, &out)
		}()
		for _, step := range steps {
			time.Sleep(time.Second)
			synctest.Wait()
			step()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		alive.Store(false)
		if err := <-done; err != nil {
			t.Errorf("following: %v", err)
		}
	})
	return out.String()
}

func TestFollow(t *testing.T) {
	appendTo := func(path, text string) func() {
		return func() {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := file.WriteString(text); err != nil {
				t.Error(err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, test := range []struct {
		name  string
		file  string
		opts  Options
		steps func(path string) []func()
		want  string
	}{
		{"grows", line(0, "a"), Options{}, func(path string) []func() {
			return []func(){appendTo(path, line(1, "b")), appendTo(path, line(2, "c")+line(3, "d"))}
		}, "a\nb\nc\nd\n"},
		{"tail first", line(0, "a") + line(1, "b"), Options{Tail: new(int64(1))}, func(path string) []func() {
			return []func(){appendTo(path, line(2, "c"))}
		}, "b\nc\n"},
		{"an entry arrives in pieces", "", Options{Timestamps: true}, func(path string) []func() {
			whole := line(1, "hello")
			return []func(){appendTo(path, whole[:10]), appendTo(path, whole[10:36]), appendTo(path, whole[36:]+line(2, "x"))}
		}, "2026-11-21T10:00:01.120000000Z hello\n2026-11-21T10:00:02.120000000Z x\n"},
		{"rotation", line(0, "a"), Options{}, func(path string) []func() {
			return []func(){
				func() {
					if err := os.Rename(path, path+".old"); err != nil {
						t.Error(err)
					}
				},
				// The runtime keeps writing to the old file until it is told to reopen.
				appendTo(path+".old", line(1, "b")),
				appendTo(path, line(2, "c")),
				appendTo(path, line(3, "d")),
			}
		}, "a\nb\nc\nd\n"},
		{"cut", line(0, "a") + line(1, "b"), Options{}, func(path string) []func() {
			return []func(){
				func() {
					if err := os.Truncate(path, 0); err != nil {
						t.Error(err)
					}
				},
				appendTo(path, line(2, "c")),
			}
		}, "a\nb\nc\n"},
		{"a limit ends the reading", line(0, "a"), Options{LimitBytes: new(int64(3))}, func(path string) []func() {
			return []func(){appendTo(path, line(1, "bcd"))}
		}, "a\nb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := write(t, test.file)
			if got := follow(t, path, test.opts, test.steps(path)...); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("begins before the file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "0.log")
		if got := follow(t, path, Options{}, func() {}, appendTo(path, line(0, "a"))); got != "a\n" {
			t.Errorf("got %q", got)
		}
	})
}

// TestFollowLastWords: output written before the container was seen to have ended is read.
func TestFollowLastWords(t *testing.T) {
	path := write(t, line(0, "a"))
	var out strings.Builder
	running := func(context.Context) (bool, error) {
		return false, os.WriteFile(path, []byte(line(0, "a")+line(1, "last")), 0o600)
	}
	if err := Read(t.Context(), path, Options{Follow: true}, running, &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "a\nlast\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestFollowEnds(t *testing.T) {
	path := write(t, line(0, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	err := Read(ctx, path, Options{Follow: true}, func(context.Context) (bool, error) { cancel(); return true, nil }, &strings.Builder{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := errors.New("no runtime")
	err = Read(t.Context(), path, Options{Follow: true}, func(context.Context) (bool, error) { return false, broken }, &strings.Builder{})
	if !errors.Is(err, broken) {
		t.Errorf("without a runtime: %v", err)
	}
	err = Read(t.Context(), path+".not", Options{Follow: true}, func(context.Context) (bool, error) { return false, nil }, &strings.Builder{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a container that ended without a log: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2016-10-06T00:17:09.669794202Z stdout F the content"))
	f.Add([]byte("2016-10-06T00:17:09Z stderr P:x "))
	f.Add([]byte("2016-10-06T00:17:09Z stderr F"))
	f.Add([]byte(" stdout  F"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parse(text)
		if err != nil || bytes.IndexByte(text, '\n') >= 0 {
			return
		}
		again, err := parse(bytes.TrimSuffix(Format(e.at, e.stream, e.partial, e.content), []byte{'\n'}))
		if err != nil {
			// Years over 9999 and zones of whole days can be parsed but not formatted.
			return
		}
		if !again.at.Equal(e.at) || again.stream != e.stream || again.partial != e.partial || !bytes.Equal(again.content, e.content) {
			t.Errorf("%q is %+v, written and read %+v", text, e, again)
		}
	})
}

// FuzzRead: any file can be read, and the last n lines are a suffix of all lines.
func FuzzRead(f *testing.F) {
	f.Add([]byte(line(0, "a")+part(1, "b")+line(2, "c")+"x\n"), int64(1))
	f.Add([]byte("\n\n2016-10-06T00:17:09Z stdout F"), int64(0))
	f.Fuzz(func(t *testing.T, file []byte, n int64) {
		if n < 0 {
			return
		}
		path := write(t, string(file))
		var all, tail bytes.Buffer
		if err := Read(t.Context(), path, Options{}, nil, &all); err != nil {
			t.Fatal(err)
		}
		if err := Read(t.Context(), path, Options{Tail: &n}, nil, &tail); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(all.Bytes(), tail.Bytes()) {
			t.Errorf("the last %d lines %q are not the end of %q", n, tail.Bytes(), all.Bytes())
		}
	})
}
