package endpoint

const Slots = 16384

// Slot returns the cluster slot to which Redis hashes s, if s has no braces.
func Slot(s string) int { return int(crc16(s)) % Slots }

// crc16 is CRC-16/XMODEM, which Redis Cluster uses (Redis Cluster specification, appendix A). The shifts are the terms
// of its polynomial, x^12 + x^5 + 1.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		x := crc>>8 ^ uint16(s[i])
		x ^= x >> 4
		crc = crc<<8 ^ x<<12 ^ x<<5 ^ x
	}
	return crc
}
