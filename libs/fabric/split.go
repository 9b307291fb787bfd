package fabric

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

const (
	// EntryRoom is space, in bytes, for everything in an entry and its chunk except the body.
	EntryRoom = 8 << 10
	// chunkBytes is how much of an answer goes into one chunk, unless one object is larger.
	chunkBytes = 256 << 10
	// answerField is the number of Chunk.answer.
	answerField = 1
)

// Split encodes a statement as the chunks of an answer, numbered and with their count at the end
// (rule R3). entry returns the form of a change in messages. The chunks lack only the number of the
// answer, which Tag adds, so that the same chunks can answer several asks.
func Split[C any](s Statement[C], entry func(C) *watchv1.Entry) (chunks [][]byte, err error) {
	outcome, prev := watchv1.Outcome_OUTCOME_CHANGES, s.Prev
	if s.Whole {
		outcome, prev = watchv1.Outcome_OUTCOME_WHOLE, 0
	}
	history := s.History.Wire()
	next := func() *watchv1.Chunk {
		return &watchv1.Chunk{Index: uint32(len(chunks)), Outcome: outcome, History: history, Prev: prev, Revision: s.Revision}
	}
	chunk, size := next(), 0
	for _, change := range s.Changes {
		e := entry(change)
		bytes := proto.Size(e)
		if size > 0 && size+bytes > chunkBytes-EntryRoom {
			data, err := encode(chunk)
			if err != nil {
				return nil, err
			}
			chunks = append(chunks, data)
			chunk, size = next(), 0
		}
		chunk.Entries = append(chunk.Entries, e)
		size += bytes
	}
	chunk.Count = chunk.GetIndex() + 1
	data, err := encode(chunk)
	if err != nil {
		return nil, err
	}
	return append(chunks, data), nil
}

func encode(chunk *watchv1.Chunk) ([]byte, error) {
	data, err := proto.Marshal(chunk)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return data, nil
}

// Tag returns the messages that answer one ask: chunks with a number, which distinguishes the
// answer from others to the same ask. It does not change the chunks.
func Tag(chunks [][]byte, answer uint64) [][]byte {
	tag := protowire.AppendTag(nil, answerField, protowire.Fixed64Type)
	tag = protowire.AppendFixed64(tag, answer)
	messages := make([][]byte, len(chunks))
	for i, chunk := range chunks {
		messages[i] = append(append(make([]byte, 0, len(tag)+len(chunk)), tag...), chunk...)
	}
	return messages
}
