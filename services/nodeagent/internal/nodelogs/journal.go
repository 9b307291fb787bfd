package nodelogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	// queryTime bounds how long a query takes.
	queryTime = 30 * time.Second
	// maxUnits bounds how much of the journal's list of units is read, in bytes.
	maxUnits = 4 << 20
	// journalTime is the form of times that journalctl reads.
	journalTime = "2006-01-02 15:04:05 UTC"
)

// journal finds the reader of systemd's journal.
func journal() (string, error) { return exec.LookPath("journalctl") }

// services writes the logs of services: from the journal if it has them, else from their files. What cannot be
// read is said in the output, since the response has begun.
func (h handler) services(ctx context.Context, w io.Writer, q *query, files folder) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	files.ctx = ctx
	reader, missing := h.cfg.Journal()
	known := ""
	if missing == nil {
		known = units(ctx, reader)
	}
	var logged, filed []string
	for _, service := range q.services {
		if strings.Contains(known, service+".service") {
			logged = append(logged, service)
		} else {
			filed = append(filed, service)
		}
	}
	if len(logged) > 0 {
		read := exec.CommandContext(ctx, reader, arguments(q, logged)...) //nolint:gosec // validate has checked them
		read.Stdout, read.Stderr = w, w
		exited := (*exec.ExitError)(nil)
		if err := read.Run(); err != nil && !errors.As(err, &exited) {
			h.cfg.Logger.Debug("reading the journal failed", "err", err)
			_, _ = fmt.Fprint(w, "\nerror: journal output not available\n")
		}
	}
	if len(filed) > 0 && q.options != (options{}) {
		_, _ = fmt.Fprintf(w, "\noptions present and query resolved to log files for %v\ntry without specifying options\n%s", filed, without(missing))
		return
	}
	for _, service := range filed {
		if err := copyFile(w, files, service); err != nil && errors.Is(err, fs.ErrNotExist) {
			_, _ = fmt.Fprintf(w, "\nlog not found for %s\n%s", service, without(missing))
		} else if err != nil {
			_, _ = fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
		}
	}
}

// without says that the node has no journal, if so.
func without(missing error) string {
	if missing == nil {
		return ""
	}
	return "this node has no journalctl\n"
}

// units returns the names of the units that the journal has entries of.
func units(ctx context.Context, reader string) string {
	var all bytes.Buffer
	list := exec.CommandContext(ctx, reader, "--field", "_SYSTEMD_UNIT")
	list.Stdout = &capped{to: &all, left: maxUnits}
	if err := list.Run(); err != nil {
		return ""
	}
	return all.String()
}

// capped writes up to a number of bytes, and drops the rest.
type capped struct {
	to   io.Writer
	left int
}

// Write writes what may still be written.
func (c *capped) Write(p []byte) (int, error) {
	kept := p[:min(len(p), c.left)]
	c.left -= len(kept)
	if _, err := c.to.Write(kept); err != nil {
		return 0, err
	}
	return len(p), nil
}

// arguments returns the arguments of journalctl for a query about some services.
func arguments(q *query, services []string) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if q.since != nil {
		args = append(args, "--since="+q.since.UTC().Format(journalTime))
	}
	if q.until != nil {
		args = append(args, "--until="+q.until.UTC().Format(journalTime))
	}
	if q.tail != nil {
		args = append(args, "--pager-end", "--lines="+strconv.Itoa(*q.tail))
	}
	for _, service := range services {
		args = append(args, "--unit="+service)
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != nil {
		args = append(args, "--boot", strconv.Itoa(*q.boot))
	}
	return args
}

// copyFile writes the log file of a service: SERVICE, SERVICE.log or SERVICE/SERVICE.log.
func copyFile(w io.Writer, files fs.FS, service string) error {
	err := fs.ErrNotExist
	for _, name := range []string{service, service + ".log", service + "/" + service + ".log"} {
		if err = copyOne(w, files, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

func copyOne(w io.Writer, files fs.FS, name string) error {
	file, err := files.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return errors.Join(err, fs.ErrNotExist)
	}
	_, err = io.Copy(w, file)
	return err
}

// ended returns an error, unless it is the end of a list.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
