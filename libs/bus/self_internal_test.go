package bus

import "testing"

// TestAWordOfALostServerCountsForNothing: one that is heard when its server is lost already is
// none of the next server's, of which those who wait would not be told.
func TestAWordOfALostServerCountsForNothing(t *testing.T) {
	s := &self{}
	s.came()
	if life := s.life(); !s.is("a", life) || !s.known() {
		t.Error("the first server's word is no news")
	}
	if s.is("a", s.life()) {
		t.Error("the same word again is news")
	}
	s.lost()
	s.came()
	life := s.life()
	s.lost() // before the word is heard
	if s.is("a", life) || s.is("a", s.life()) || s.known() {
		t.Error("a word of a server that is lost counts")
	}
	s.came()
	if !s.is("a", s.life()) || !s.known() {
		t.Error("the next server's word is no news")
	}
	if !s.is("b", s.life()) {
		t.Error("another identity is no news")
	}
}
