// Command generate compiles the module's .proto files and writes their Go code beside them.
// It compiles in-process and calls `go tool protoc-gen-go`, so that a machine needs no protoc.
//
//	go run ./proto/internal/generate proto watch/v1/watch.proto
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: generate ROOT FILE...")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string, files []string) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return fmt.Errorf("compiling %v: %w", files, err)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: new("paths=source_relative")}
	for _, file := range compiled {
		for i := range file.Imports().Len() {
			dependency := protoutil.ProtoFromFileDescriptor(file.Imports().Get(i))
			request.ProtoFile = append(request.ProtoFile, dependency)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	response, err := protocGenGo(ctx, request)
	if err != nil {
		return err
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(root, file.GetName())
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil { //nolint:gosec // Source files are for everyone.
			return fmt.Errorf("writing generated code: %w", err)
		}
	}
	return nil
}

func protocGenGo(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encoding the request to protoc-gen-go: %w", err)
	}
	command := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running go tool protoc-gen-go: %w", err)
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, fmt.Errorf("decoding the answer of protoc-gen-go: %w", err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("protoc-gen-go: %s", response.GetError())
	}
	return response, nil
}
