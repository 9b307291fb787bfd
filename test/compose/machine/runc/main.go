// Command runc wraps the real runc on machines whose root lacks capabilities, as in many sandboxes
// and CI systems. There, Docker cannot create privileged containers, since it requests every
// capability that the kernel knows. The wrapper removes from a container's configuration whatever
// this process itself cannot grant. Then it executes the next runc on PATH, or the one that
// GARBOARD_RUNC names.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	fmt.Fprintf(os.Stderr, "runc of a machine that lacks capabilities: %v\n", run(os.Args[1:]))
	os.Exit(1)
}

// run replaces the process with the real runc; it returns only on failure.
func run(args []string) error {
	if file := described(args); file != "" {
		allowed, err := ownBounds()
		if err != nil {
			return err
		}
		if err := rewrite(file, allowed); err != nil {
			return err
		}
	}
	program, err := realRunc()
	if err != nil {
		return err
	}
	return fmt.Errorf("executing %s: %w", program, syscall.Exec(program, append([]string{"runc"}, args...), os.Environ()))
}

// realRunc returns the path of the real runc.
func realRunc() (string, error) {
	if named := os.Getenv("GARBOARD_RUNC"); named != "" {
		return named, nil
	}
	return exec.LookPath("runc")
}

// described returns the file that describes the container, or the process in it; "" if the command
// starts nothing.
func described(args []string) string {
	for i, arg := range args {
		switch arg {
		case "create", "run", "restore":
			return filepath.Join(value(args[i+1:], ".", "--bundle", "-b"), "config.json")
		case "exec":
			return value(args[i+1:], "", "--process", "-p")
		}
	}
	return ""
}

// value returns the value of an option with any of the names.
func value(args []string, preset string, names ...string) string {
	for i, arg := range args {
		for _, name := range names {
			if arg == name && i+1 < len(args) {
				return args[i+1]
			}
			if text, ok := strings.CutPrefix(arg, name+"="); ok {
				return text
			}
		}
	}
	return preset
}

// rewrite restricts the process in the file to the bounds.
func rewrite(file string, allowed bounds) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fitted, err := fit(data, allowed)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return os.WriteFile(file, fitted, 0o600)
}

// bounds is what this process can grant to others.
type bounds struct {
	// capabilities has one bit for each capability that can be granted.
	capabilities uint64
	// score is the minimum oom_score_adj, files the maximum number of open files.
	score, files int64
}

// capSysResource is the number of the capability that lifts limits.
const capSysResource = 24

func (b bounds) unlimited() bool { return b.capabilities&(1<<capSysResource) != 0 }

// fit removes from the description of a container (config.json), or of a process to start in one,
// what exceeds the bounds. Everything else stays as it is.
func fit(data []byte, allowed bounds) ([]byte, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	raw, nested := whole["process"]
	if !nested {
		return fitProcess(whole, allowed)
	}
	var process map[string]json.RawMessage
	if err := json.Unmarshal(raw, &process); err != nil {
		return nil, err
	}
	fitted, err := fitProcess(process, allowed)
	if err != nil {
		return nil, err
	}
	whole["process"] = fitted
	return json.Marshal(whole)
}

func fitProcess(process map[string]json.RawMessage, allowed bounds) ([]byte, error) {
	if raw, ok := process["capabilities"]; ok {
		sets := map[string][]string{}
		if err := json.Unmarshal(raw, &sets); err != nil {
			return nil, fmt.Errorf("capabilities: %w", err)
		}
		for name, set := range sets {
			sets[name] = within(set, allowed.capabilities)
		}
		process["capabilities"] = encoded(sets)
	}
	if raw, ok := process["oomScoreAdj"]; ok && !allowed.unlimited() {
		var score int64
		if err := json.Unmarshal(raw, &score); err != nil {
			return nil, fmt.Errorf("oomScoreAdj: %w", err)
		}
		process["oomScoreAdj"] = encoded(max(score, allowed.score))
	}
	if raw, ok := process["rlimits"]; ok && !allowed.unlimited() {
		var limits []struct {
			Type string `json:"type"`
			Hard uint64 `json:"hard"`
			Soft uint64 `json:"soft"`
		}
		if err := json.Unmarshal(raw, &limits); err != nil {
			return nil, fmt.Errorf("rlimits: %w", err)
		}
		for i := range limits {
			if limits[i].Type == "RLIMIT_NOFILE" {
				limits[i].Hard = min(limits[i].Hard, uint64(allowed.files))
				limits[i].Soft = min(limits[i].Soft, limits[i].Hard)
			}
		}
		process["rlimits"] = encoded(limits)
	}
	return json.Marshal(process)
}

// encoded encodes a value that cannot fail to be encoded.
func encoded(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return data
}

// within returns the capabilities whose bit is set. It drops unknown names, which are newer than
// the numbers below.
func within(set []string, mask uint64) []string {
	kept := []string{}
	for _, name := range set {
		if number, known := capabilities()[strings.TrimPrefix(strings.ToUpper(name), "CAP_")]; known && mask&(1<<number) != 0 {
			kept = append(kept, name)
		}
	}
	return kept
}

// capabilities returns the numbers of Linux's capabilities (capability.h).
func capabilities() map[string]uint {
	names := strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
		NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
		SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
		SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)
	numbers := make(map[string]uint, len(names))
	for number, name := range names {
		numbers[name] = uint(number)
	}
	return numbers
}

// ownBounds reads what this process may have and grant.
func ownBounds() (bounds, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return bounds{}, err
	}
	var own bounds
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			if own.capabilities, err = strconv.ParseUint(strings.TrimSpace(text), 16, 64); err != nil {
				return bounds{}, fmt.Errorf("reading the bounding set %q: %w", text, err)
			}
		}
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return bounds{}, err
	}
	if own.score, err = strconv.ParseInt(strings.TrimSpace(string(score)), 10, 64); err != nil {
		return bounds{}, fmt.Errorf("reading the OOM score: %w", err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return bounds{}, fmt.Errorf("reading the limit of open files: %w", err)
	}
	own.files = int64(min(files.Max, 1<<62))
	return own, nil
}
