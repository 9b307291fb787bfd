package harness

import (
	"archive/tar"
	"os"
	"strings"
	"time"
)

// layer is the only layer of an image while it is written.
type layer struct {
	to   *tar.Writer
	made map[string]bool // folders, without the slashes at their ends
}

func (l *layer) add(header *tar.Header, content []byte) error {
	header.ModTime, header.Size = time.Unix(1577836800, 0), int64(len(content))
	if err := l.to.WriteHeader(header); err != nil {
		return err
	}
	_, err := l.to.Write(content)
	return err
}

// folder adds a folder, and those above it, unless they are there.
func (l *layer) folder(name string, mode int64) error {
	if l.made[name] {
		return nil
	}
	l.made[name] = true
	if err := l.above(name); err != nil {
		return err
	}
	return l.add(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
}

// above adds the folders above a name.
func (l *layer) above(name string) error {
	slash := strings.LastIndex(name, "/")
	if slash <= 0 {
		return nil
	}
	return l.folder(name[:slash], 0o755)
}

func (l *layer) file(path string, mode int64, content []byte) error {
	name := strings.TrimPrefix(path, "/")
	if err := l.above(name); err != nil {
		return err
	}
	return l.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, content)
}

func (l *layer) program(p Program) error {
	content, err := os.ReadFile(p.File)
	if err != nil {
		return err
	}
	mode := int64(0o755)
	if p.SetUID {
		mode |= 0o4000
	}
	if err := l.file(p.Path, mode, content); err != nil {
		return err
	}
	for _, link := range p.Links {
		name := strings.TrimPrefix(link, "/")
		if err := l.above(name); err != nil {
			return err
		}
		if err := l.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: p.Path, Mode: 0o777}, nil); err != nil {
			return err
		}
	}
	return nil
}
