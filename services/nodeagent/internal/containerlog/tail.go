package containerlog

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// tailBlock is the number of bytes read at a time from the end of a file.
const tailBlock = 64 << 10

// tailStart returns the offset of the last n lines of the container's output; a line of several
// entries counts once.
func tailStart(file *os.File, n int64, only Stream) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	if n == 0 {
		return end, nil
	}
	back := &backward{file: file, at: end}
	start, lines := end, int64(0)
	for {
		line, at, err := back.previous()
		if errors.Is(err, io.EOF) {
			return start, nil
		}
		if err != nil {
			return 0, err
		}
		e, err := parse(line)
		if err != nil || (only != "" && e.stream != only) {
			continue
		}
		// Seen from the end, an entry that ends a line starts a new one. A partial entry that is
		// the very last is an unfinished line.
		if !e.partial || lines == 0 {
			if lines++; lines > n {
				return start, nil
			}
		}
		start = at
	}
}

// backward reads the lines of a file backwards from its end.
type backward struct {
	file *os.File
	// at is the offset of held, the bytes that are read but not yet returned.
	at   int64
	held []byte
}

// previous returns the line before the last one returned, without its newline, and its offset;
// io.EOF before the first line.
func (b *backward) previous() ([]byte, int64, error) {
	held := bytes.TrimSuffix(b.held, []byte{'\n'})
	for {
		if newline := bytes.LastIndexByte(held, '\n'); newline >= 0 {
			line, at := held[newline+1:], b.at+int64(newline)+1
			b.held = held[:newline+1]
			return line, at, nil
		}
		if b.at == 0 {
			b.held = nil
			if len(held) == 0 {
				return nil, 0, io.EOF
			}
			return held, 0, nil
		}
		size := min(b.at, tailBlock)
		// The block doubles each time, so that a very long line is not copied block by block.
		size = min(b.at, max(size, int64(len(b.held))))
		block := make([]byte, size, size+int64(len(b.held)))
		if _, err := b.file.ReadAt(block, b.at-size); err != nil {
			return nil, 0, err
		}
		b.held, b.at = append(block, b.held...), b.at-size
		held = bytes.TrimSuffix(b.held, []byte{'\n'})
	}
}
