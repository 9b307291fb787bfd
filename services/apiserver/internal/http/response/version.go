package response

import "bytes"

// insertion is where the resourceVersion goes in an object that etcd holds as JSON, without it.
type insertion struct {
	// at is the place, from where the metadata begins.
	at, from int
	// before and after say whether the metadata has fields on that side.
	before, after bool
}

// versionIn returns where the resourceVersion goes in JSON without spaces, as the serializers write it: fields
// are in the order of their names. It returns false if the JSON has another form, or a resourceVersion.
func versionIn(data []byte) (insertion, bool) {
	s := scanner{data: data}
	for inner := s.open(); inner; inner = s.next() {
		name, ok := s.name()
		if !ok {
			return insertion{}, false
		}
		if string(name) == "metadata" {
			return s.inMetadata()
		}
		if !s.skip() {
			return insertion{}, false
		}
	}
	return insertion{}, false
}

// inMetadata returns the place in the metadata, at which the scanner is.
func (s *scanner) inMetadata() (insertion, bool) {
	place := insertion{from: s.at}
	for inner := s.open(); inner; inner = s.next() {
		at := s.at
		name, ok := s.name()
		if !ok || string(name) == "resourceVersion" || string(name) == "selfLink" {
			return insertion{}, false
		}
		if string(name) > "resourceVersion" {
			place.at, place.after = at, true
			return place, true
		}
		if !s.skip() {
			return insertion{}, false
		}
		place.at, place.before = s.at, true
	}
	return place, place.before
}

// appendVersioned appends data with the resourceVersion, which has no character that JSON escapes.
func (i insertion) appendVersioned(buffer, data []byte, version string) []byte {
	buffer = append(buffer, data[:i.at]...)
	if i.before && !i.after {
		buffer = append(buffer, ',')
	}
	buffer = append(buffer, `"resourceVersion":"`...)
	buffer = append(buffer, version...)
	buffer = append(buffer, '"')
	if i.after {
		buffer = append(buffer, ',')
	}
	return append(buffer, data[i.at:]...)
}

// scanner goes through JSON without spaces. It does not check values.
type scanner struct {
	data []byte
	at   int
}

// open enters an object. It reports whether that has a field.
func (s *scanner) open() bool { return s.take('{') && s.at < len(s.data) && s.data[s.at] == '"' }

// next goes on to the next field of an object. It reports whether there is one.
func (s *scanner) next() bool { return s.take(',') }

func (s *scanner) take(c byte) bool {
	if s.at >= len(s.data) || s.data[s.at] != c {
		return false
	}
	s.at++
	return true
}

// name reads a field's name and its colon. It reports false for a name with escaped characters.
func (s *scanner) name() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	length := bytes.IndexByte(s.data[s.at:], '"')
	if length < 0 {
		return nil, false
	}
	name := s.data[s.at : s.at+length]
	s.at += length + 1
	return name, bytes.IndexByte(name, '\\') < 0 && s.take(':')
}

// skip goes to the end of a value: the comma or the brace after it.
func (s *scanner) skip() bool {
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"':
			if !s.text() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return true
			}
			depth--
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.at++
	}
	return false
}

// text goes past a text.
func (s *scanner) text() bool {
	for s.at++; ; s.at++ {
		next := bytes.IndexByte(s.data[s.at:], '"')
		if next < 0 {
			return false
		}
		s.at += next
		escapes := 0
		for s.data[s.at-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			s.at++
			return true
		}
	}
}
