package bus

import "testing"

// TestLostServersIdentityIsIgnored checks that an identity that arrives after its server was
// lost is not taken for one of the next server, of which waiting callers would then not be
// notified.
func TestLostServersIdentityIsIgnored(t *testing.T) {
	s := &self{}
	s.came()
	if life := s.life(); !s.is("a", life) || !s.known() {
		t.Error("the first server's identity is not news")
	}
	if s.is("a", s.life()) {
		t.Error("the same identity is news")
	}
	s.lost()
	s.came()
	life := s.life()
	s.lost() // before the identity arrives
	if s.is("a", life) || s.is("a", s.life()) || s.known() {
		t.Error("the identity of a lost server counts")
	}
	s.came()
	if !s.is("a", s.life()) || !s.known() {
		t.Error("the next server's identity is not news")
	}
	if !s.is("b", s.life()) {
		t.Error("another identity is not news")
	}
}
