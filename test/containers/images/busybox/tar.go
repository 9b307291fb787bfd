package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive is tar as kubectl cp calls it: `tar cf - PATH` writes an archive to the output, and `tar -xmf - -C FOLDER`
// extracts one from the input. It knows files, folders and symbolic links.
func archive(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 {
		return errors.New("what to do is missing")
	}
	letters, rest := strings.TrimPrefix(args[0], "-"), args[1:]
	if rest[0] != "-" {
		return fmt.Errorf("only -, not %s, can be the archive", rest[0])
	}
	if strings.Contains(letters, "c") && len(rest) == 2 {
		return pack(rest[1], out)
	}
	folder := "."
	if len(rest) == 3 && rest[1] == "-C" {
		folder = rest[2]
	}
	return unpack(folder, in)
}

// pack writes what is at a path, whose names in the archive lack the first slash.
func pack(from string, out io.Writer) error {
	writer := tar.NewWriter(out)
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		header.Name = strings.TrimPrefix(path, "/")
		if info.IsDir() {
			header.Name += "/"
		}
		if err := writer.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(writer, file)
		return errors.Join(err, file.Close())
	})
	return errors.Join(err, writer.Close())
}

// unpack extracts an archive into a folder.
func unpack(folder string, in io.Reader) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	reader := tar.NewReader(in)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return root.Close()
		}
		if err == nil {
			err = extract(root, header, reader)
		}
		if err != nil {
			return errors.Join(err, root.Close())
		}
	}
}

func extract(root *os.Root, header *tar.Header, from io.Reader) error {
	name := filepath.Clean(strings.TrimPrefix(header.Name, "/"))
	mode := fs.FileMode(header.Mode).Perm()
	if header.Typeflag == tar.TypeDir {
		return root.MkdirAll(name, mode)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		return root.Symlink(header.Linkname, name)
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
