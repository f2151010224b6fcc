package endpoint

const Slots = 16384

// Slot returns the cluster slot to which Redis hashes s, if s has no braces.
func Slot(s string) int { return int(crc16(s)) % Slots }

// crc16 is CRC-16/XMODEM, which Redis Cluster uses (Redis Cluster specification, appendix A).
func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	const polynomial = 0x1021
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ polynomial
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
