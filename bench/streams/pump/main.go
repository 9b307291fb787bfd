// Command pump is what containers of the benchmark run: it sends or swallows bytes, over its standard streams or at
// ports.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// Ports at which pump listens: one that sends as many bytes as its argument says, and one that swallows as many and then
// answers with one. containerd ends a forwarded connection both ways when one end has sent all.
const (
	sends    = ":9000"
	swallows = ":9001"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: pump first | out BYTES | in | serve BYTES | lines PER_SECOND")
	}
	var number int64
	if len(args) > 1 {
		var err error
		if number, err = strconv.ParseInt(args[1], 10, 64); err != nil {
			return err
		}
	}
	switch args[0] {
	case "first":
		_, err := os.Stdout.WriteString("x")
		return err
	case "out":
		_, err := io.CopyN(os.Stdout, zeros{}, number)
		return err
	case "in":
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "echo":
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	case "lines":
		for range time.Tick(time.Second / time.Duration(number)) {
			fmt.Println("a line of a log as a service might write it, with some seventy characters")
		}
	case "serve":
		go listen(swallows, func(conn net.Conn) {
			_, _ = io.CopyN(io.Discard, conn, number)
			_, _ = conn.Write([]byte{1})
		})
		listen(sends, func(conn net.Conn) { _, _ = io.CopyN(conn, zeros{}, number) })
	}
	return fmt.Errorf("there is no %q", args[0])
}

func listen(at string, serve func(net.Conn)) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		panic(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer func() { _ = conn.Close() }()
			serve(conn)
		}()
	}
}

// zeros reads zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
