// Command images writes a container image for each service, as an archive that `docker load`
// and `ctr images import` read: the static program, from scratch, and nothing else.
//
//	go run ./images -version v0.1.0 -o bin/images
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

// services are the commands that run in containers, with the user that each runs as: the node
// agent works for root's containers, the others need no right at all.
var services = []service{
	{name: "apiserver", user: "65532:65532"},
	{name: "controllers", user: "65532:65532"},
	{name: "scheduler", user: "65532:65532"},
	{name: "nodeagent", user: "0:0"},
}

type service struct{ name, user string }

func main() {
	version := flag.String("version", "latest", "tag of the images")
	output := flag.String("o", "bin/images", "folder to write the archives to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *version, *output); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, output string) error {
	if err := os.MkdirAll(output, 0o755); err != nil {
		return fmt.Errorf("making the folder of the images: %w", err)
	}
	work, err := os.MkdirTemp("", "garboard-images-")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, s := range services {
		began := time.Now()
		program := filepath.Join(work, s.name)
		if err := build(ctx, s.name, version, program); err != nil {
			return err
		}
		binary, err := os.ReadFile(program)
		if err != nil {
			return fmt.Errorf("reading the %s: %w", s.name, err)
		}
		path := filepath.Join(output, s.name+".tar")
		size, err := writeFile(path, image{
			reference: "garboard/" + s.name + ":" + version, name: s.name, user: s.user, version: version, binary: binary,
		})
		if err != nil {
			return err
		}
		fmt.Printf("%s: garboard/%s:%s, %d MB, in %v\n", path, s.name, version, size>>20, time.Since(began).Round(time.Second))
	}
	return nil
}

// build compiles a command into a program that needs no library of its system.
func build(ctx context.Context, name, version, program string) error {
	fmt.Printf("building %s\n", name)
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", program, "./cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building cmd/%s: %w", name, err)
	}
	return nil
}

// writeFile writes an image's archive and gives its size in bytes.
func writeFile(path string, i image) (int64, error) {
	file, err := os.Create(path)
	if err != nil {
		return 0, fmt.Errorf("writing the image of the %s: %w", i.name, err)
	}
	if err := i.write(file); err != nil {
		_ = file.Close()
		return 0, fmt.Errorf("writing the image of the %s: %w", i.name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), file.Close()
}
