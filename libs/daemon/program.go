package daemon

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// program decides when an idle process gives back the pages of its program's file. The start of a process uses most of
// them once: for its variables, for flags, for what it registers. The zero value has given back nothing.
type program struct {
	kept     uint64 // bytes that the idle process mapped again after it had given back all
	returned bool   // since the last check
}

// returns reports whether the process should give back what it has mapped of its program, in bytes. It is asked at each
// check, with whether the process has been idle since the last one.
func (p *program) returns(mapped uint64, idle bool) bool {
	if p.returned && idle {
		p.kept = mapped
	}
	p.returned = idle && mapped > p.kept+worthwhile
	return p.returned
}

// check gives back what is mapped of the program's file if the process is idle and that is much. Where the system does
// not tell what is mapped, or refuses, the pages stay until the kernel needs the memory.
func (p *program) check(idle bool) {
	var found []mapping
	var mapped uint64
	if idle {
		found, _ = programMappings()
		for _, m := range found {
			mapped += m.resident
		}
	}
	if !p.returns(mapped, idle) {
		return
	}
	for _, m := range found {
		if m.giveBack() != nil {
			return
		}
	}
}

// mapping is a range of addresses where a file is mapped and nothing of it has been changed.
type mapping struct {
	start, end uint64 // bytes
	resident   uint64 // bytes
}

// mappings returns where the file at path is mapped, unchanged and read-only, from a process's smaps (proc_pid_smaps(5)).
func mappings(smaps io.Reader, path string) ([]mapping, error) {
	var found []mapping
	var written bool // The last of found has pages of its own, such as a debugger's breakpoints.
	var ours bool
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if !strings.HasSuffix(fields[0], ":") {
			if written {
				found = found[:len(found)-1]
			}
			written = false
			ours = len(fields) > 5 && strings.Join(fields[5:], " ") == path && !strings.Contains(fields[1], "w")
			if !ours {
				continue
			}
			var m mapping
			if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.start, &m.end); err != nil {
				return nil, fmt.Errorf("reading the addresses %q of a mapping: %w", fields[0], err)
			}
			found = append(found, m)
			continue
		}
		if !ours || fields[0] != "Rss:" && fields[0] != "Anonymous:" {
			continue
		}
		kilobytes, err := strconv.ParseUint(fields[1], 10, 54)
		if err != nil {
			return nil, fmt.Errorf("reading the size in %q: %w", lines.Text(), err)
		}
		if fields[0] == "Rss:" {
			found[len(found)-1].resident = kilobytes << 10
		} else {
			written = kilobytes > 0
		}
	}
	if written {
		found = found[:len(found)-1]
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the mappings of the process: %w", err)
	}
	return found, nil
}
