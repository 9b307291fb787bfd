// Command busybox is a stand-in for busybox in tests. It is invoked by a tool's name, as the first
// argument or as the name of the program. Its shell supports `sh -c` with simple commands joined by
// `;`, `&&` and `||`, quotes, $VARIABLES, `>` and `>>`.
//
// As with the real busybox, a sleep that is the first process of a container ends only by SIGKILL.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	args := os.Args
	if filepath.Base(args[0]) == "busybox" && len(args) > 1 {
		args = args[1:]
	}
	args[0] = filepath.Base(args[0])
	os.Exit(run(args, os.Stdout))
}

// run runs one tool and returns its exit code.
func run(args []string, out io.Writer) int {
	switch args[0] {
	case "sh":
		if len(args) < 3 || args[1] != "-c" {
			// A shell without input exits immediately, as it does in a container without stdin.
			return 0
		}
		return script(args[2], out)
	case "true", "busybox":
		return 0
	case "false":
		return 1
	case "exit":
		code := 0
		if len(args) > 1 {
			code, _ = strconv.Atoi(args[1])
		}
		os.Exit(code & 0xff)
	case "echo":
		return written(fmt.Fprintln(out, strings.Join(args[1:], " ")))
	case "env":
		return written(fmt.Fprintln(out, strings.Join(os.Environ(), "\n")))
	case "pwd":
		dir, err := os.Getwd()
		return answer(out, dir, err)
	case "hostname":
		name, err := os.Hostname()
		return answer(out, name, err)
	case "id":
		return written(fmt.Fprintf(out, "uid=%d gid=%d\n", os.Getuid(), os.Getgid()))
	case "cat":
		if len(args) == 1 {
			return written(io.Copy(out, os.Stdin))
		}
		return each(args[1:], func(name string) error {
			content, err := os.ReadFile(name)
			_, _ = out.Write(content)
			return err
		})
	case "head": // of one line of the input
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		return answer(out, strings.TrimSuffix(line, "\n"), err)
	case "ls":
		return each(args[1:], func(name string) error {
			entries, err := os.ReadDir(name)
			for _, entry := range entries {
				if !strings.HasPrefix(entry.Name(), ".") {
					_, _ = fmt.Fprintln(out, entry.Name())
				}
			}
			return err
		})
	case "test":
		if len(args) == 3 && (args[1] == "-e" || args[1] == "-f" || args[1] == "-d") {
			if info, err := os.Stat(args[2]); err == nil && (args[1] != "-d" || info.IsDir()) {
				return 0
			}
		}
		return 1
	case "tar":
		return each([]string{""}, func(string) error { return archive(args[1:], os.Stdin, out) })
	case "touch":
		return each(args[1:], func(name string) error { return os.WriteFile(name, nil, 0o644) })
	case "truncate":
		if len(args) != 4 || args[1] != "-s" {
			return 1
		}
		return each(args[3:], func(name string) error {
			size, err := strconv.ParseInt(args[2], 10, 64)
			if err != nil {
				return err
			}
			return os.Truncate(name, size)
		})
	case "rm":
		return each(args[1:], os.Remove)
	case "kill":
		// Only the process itself can be signalled: kill SIGNAL.
		if len(args) == 2 {
			number, _ := strconv.Atoi(args[1])
			return each([]string{""}, func(string) error { return syscall.Kill(os.Getpid(), syscall.Signal(number)) })
		}
		return 2
	case "fill":
		return fill(args[1:])
	case "sleep":
		return sleep(args[1:])
	case "wget":
		return each(args[len(args)-1:], func(url string) error { return get(url, out) })
	}
	fmt.Fprintf(os.Stderr, "%s: not found\n", args[0])
	return 127
}

func sleep(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: sleep SECONDS")
		return 1
	}
	signal.Ignore(syscall.SIGTERM)
	if args[0] == "infinity" || args[0] == "inf" {
		args = []string{"876000h"} // an empty select would be reported as a deadlock, since nothing else runs
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		d, err = time.ParseDuration(args[0] + "s")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sleep: invalid number %q\n", args[0])
		return 1
	}
	<-time.After(d)
	return 0
}

// fill allocates the given number of megabytes, to reach the memory limit.
func fill(args []string) int {
	if len(args) == 0 {
		return 1
	}
	megabytes, err := strconv.Atoi(args[0])
	if err != nil {
		return 1
	}
	var held [][]byte
	for range megabytes {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	fmt.Println("filled", len(held))
	return 0
}

func get(url string, out io.Writer) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(out, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("server returned error: HTTP/1.1 %s", response.Status)
	}
	return nil
}

func each(names []string, do func(string) error) int {
	code := 0
	for _, name := range names {
		if err := do(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

func answer(out io.Writer, text string, err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return written(fmt.Fprintln(out, text))
}

func written[N int | int64](_ N, err error) int {
	if err != nil {
		return 1
	}
	return 0
}
